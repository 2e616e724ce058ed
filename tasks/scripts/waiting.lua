-- Tell who waits in a lane, oldest first. ARGV: prefix, lane, how many at most, bytes of Boxes at most, 1 for the newest.
-- Returns {run, id, begin (ms), Box wire or '' where it would be too much, run, …}. Reads only.
local count, left, newest = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local runs = redis.call('LRANGE', P .. 'lane:' .. ARGV[2], newest and -count or 0, newest and -1 or count - 1)
local rows = {}
for n = 1, #runs do
  local at = newest and #runs + 1 - n or n
  local run = runs[at]
  local f = redis.call('HMGET', runkey(run), 'i', 'b')
  left = left - redis.call('STRLEN', boxkey(run))
  rows[at] = {run, f[1] or '', f[2] or '0', left >= 0 and redis.call('GET', boxkey(run)) or ''}
end
local found = {}
for _, row in ipairs(rows) do
  for _, text in ipairs(row) do found[#found + 1] = text end
end
return found
