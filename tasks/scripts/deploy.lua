-- Begin a deployment. ARGV: prefix, what it brings (JSON), ms to prepare it, the active one it was made from ('' for any),
-- the token of the turn it is begun in ('0' without one).
-- Returns {'ok', number}, the same for an operation that has begun just this already, {'busy', number, what that one
-- brings}, {'stale', the active one} when that is another than the one it was made from, or {'lost'} for the turn.
settle()
local f = redis.call('HMGET', D, 'number', 'state', 'wanted', 'active')
local operation = cjson.decode(ARGV[2]).operation
if operation ~= '' and f[3] == ARGV[2] then return {'ok', f[1]} end
if f[2] == 'preparing' then return {'busy', f[1], f[3]} end
if ARGV[5] ~= '0' and ARGV[5] ~= redis.call('HGET', TURN, 'token') then return {'lost'} end
local active = f[4] or '0'
if ARGV[4] ~= '' and ARGV[4] ~= active then return {'stale', active} end
local number = tonumber(f[1] or 0) + 1
redis.call('DEL', ANSWERS, TABLE)
redis.call('HSET', D, 'number', number, 'state', 'preparing', 'wanted', ARGV[2], 'began', clock(), 'until', clock() + ARGV[3])
note_look()
settle()
return {'ok', tostring(number)}
