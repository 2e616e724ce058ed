-- Push the delayed runs that are due. ARGV: prefix. Returns the milliseconds until the next one, or -1.
local due = redis.call('ZRANGEBYSCORE', P .. 'delayed', '-inf', clock(), 'LIMIT', 0, 100)
for _, id in ipairs(due) do
  redis.call('ZREM', P .. 'delayed', id)
  if redis.call('HGET', runkey(id), 's') == 'd' then enter(id) end
end
local following = redis.call('ZRANGE', P .. 'delayed', 0, 0, 'WITHSCORES')
if not following[2] then return -1 end
return math.max(0, following[2] - clock())
