-- Take what is archived off the journal's old end. ARGV: prefix, the last place that may go, the last one that must, bytes
-- above which what may go does go, how many at most. Returns how many went.
local may, must, soft = ARGV[2], ARGV[3], tonumber(ARGV[4])
local safe = archived()
if not not_after(may, safe) then may = safe end
local gone = shorten(tonumber(ARGV[5]), function(id, bytes)
  return not_after(id, may) and (bytes > soft or not_after(id, must))
end)
return gone.n
