-- The turn to change the bot's plugins: a lease with a fencing token, one `pkg` on all machines has it.
-- ARGV: prefix, 'take', ms, owner, about the owner (JSON), token of a turn whose holder is dead ('0' for none); or
-- 'keep' or 'end', ms, token. Returns {'ok', token}, {'busy', token, about its holder, since (ms)}, or {'lost'}.
local what, ms, who = ARGV[2], ARGV[3], ARGV[4]
local f = redis.call('HMGET', TURN, 'token', 'owner', 'until', 'about', 'since')
local token, owner = f[1] or '0', f[2]
if what == 'take' then
  if owner and owner ~= who and clock() < tonumber(f[3]) and ARGV[6] ~= token then
    return {'busy', token, f[4], f[5]}
  end
  if owner ~= who then
    token = tostring(redis.call('HINCRBY', TURN, 'token', 1))
    redis.call('HSET', TURN, 'owner', who, 'about', ARGV[5], 'since', clock())
  end
  redis.call('HSET', TURN, 'until', clock() + ms)
  return {'ok', token}
end
if not owner or who ~= token then return {'lost'} end
if what == 'end' then
  redis.call('HDEL', TURN, 'owner', 'until', 'about', 'since')
else
  redis.call('HSET', TURN, 'until', clock() + ms)
end
return {'ok', token}
