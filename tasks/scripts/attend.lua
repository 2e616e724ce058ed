-- A process lives, leaves, or only looks. ARGV: prefix, member ('' only looks), about it (JSON; '' when it leaves).
-- Returns {number, state, active}.
local name, about = ARGV[2], ARGV[3]
if name ~= '' and about == '' then
  redis.call('ZREM', MEMBERS, name)
  redis.call('HDEL', ABOUT, name)
  local said = redis.call('HGET', ANSWERS, name)
  if said and cjson.decode(said).s == 'loading' then redis.call('HDEL', ANSWERS, name) end
  return standing()
end
note_look()
if name ~= '' then
  redis.call('ZADD', MEMBERS, clock(), name)
  redis.call('HSET', ABOUT, name, about)
  local old = redis.call('ZRANGEBYSCORE', MEMBERS, '-inf', clock() - 60000)
  for _, gone in ipairs(old) do
    redis.call('ZREM', MEMBERS, gone)
    redis.call('HDEL', ABOUT, gone)
  end
end
return standing()
