-- Push the delayed runs that are due. ARGV: prefix. Returns the milliseconds until the next one, or -1.
move_due()
local following = redis.call('ZRANGE', P .. 'delayed', 0, 0, 'WITHSCORES')
if not following[2] then return -1 end
return math.max(0, following[2] - clock())
