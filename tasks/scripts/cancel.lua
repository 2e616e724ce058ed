-- End a run as cancelled: at once when nobody executes it, else at its next commit.
-- ARGV: prefix, run, reason, journal text, keep, limit. Returns 'unknown', 'ended', 'cancelled' or 'marked'.
local id, key = ARGV[2], runkey(ARGV[2])
local f = redis.call('HMGET', key, 's', 'l', 'p', 'x', 'q', 'S')
if not f[1] then return 'unknown' end
if f[1] == 'e' or f[1] == 'f' then return 'ended' end
if f[1] == 'c' then
  redis.call('HSET', key, 'X', ARGV[3])
  return 'marked'
end
if f[1] == 'q' then
  redis.call('ZREM', P .. 'queued:' .. listname(f[2] or QUEUE, tonumber(f[3]) or NORMAL), id .. '.' .. (f[4] or 0) .. '.' .. f[5])
end
redis.call('ZREM', P .. 'delayed', id)
if f[6] then note(ARGV[6], ARGV[4]) else note_first(id, ARGV[6], ARGV[4]) end
finish(id, 'cancelled', ARGV[3], ARGV[5])
return 'cancelled'
