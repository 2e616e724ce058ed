-- Publish a route table unless it says what is published already. ARGV: prefix, table JSON. Returns its number.
local known = redis.call('HMGET', P .. 'routes', 'number', 'table')
if known[2] == ARGV[2] then return tonumber(known[1]) end
local number = redis.call('INCR', P .. 'routes:number')
redis.call('HSET', P .. 'routes', 'number', number, 'table', ARGV[2])
return number
