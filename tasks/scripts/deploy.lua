-- Begin a deployment. ARGV: prefix, what it brings (JSON), ms to prepare it.
-- Returns {'ok', number}, the same for an operation that has begun just this already, or {'busy', number, what that one brings}.
settle()
local f = redis.call('HMGET', D, 'number', 'state', 'wanted')
local operation = cjson.decode(ARGV[2]).operation
if operation ~= '' and f[3] == ARGV[2] then return {'ok', f[1]} end
if f[2] == 'preparing' then return {'busy', f[1], f[3]} end
local number = tonumber(f[1] or 0) + 1
redis.call('DEL', ANSWERS, TABLE)
redis.call('HSET', D, 'number', number, 'state', 'preparing', 'wanted', ARGV[2], 'began', clock(), 'until', clock() + ARGV[3])
note_look()
settle()
return {'ok', tostring(number)}
