-- A process lives, leaves, or only looks. ARGV: prefix, member ('' only looks), about it (JSON; '' when it leaves).
-- Returns {number, state, active}.
local name, about = ARGV[2], ARGV[3]

local function gone(member)
  redis.call('ZREM', MEMBERS, member)
  redis.call('HDEL', ABOUT, member)
  redis.call('HDEL', P .. 'alarms', 'deployment in ' .. member) -- it ends with the process it is about
end

if name ~= '' and about == '' then
  gone(name)
  local said = redis.call('HGET', ANSWERS, name)
  if said and cjson.decode(said).s == 'loading' then redis.call('HDEL', ANSWERS, name) end
  return standing()
end
note_look()
if name ~= '' then
  redis.call('ZADD', MEMBERS, clock(), name)
  redis.call('HSET', ABOUT, name, about)
  local old = redis.call('ZRANGEBYSCORE', MEMBERS, '-inf', clock() - 60000)
  for _, one in ipairs(old) do gone(one) end
end
return standing()
