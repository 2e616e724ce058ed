-- End a run and its attached children as cancelled: at once what nobody executes, else at its next commit.
-- ARGV: prefix, run, reason, an id of this call: the same one sent again gives the same answer, keep, limit.
-- Returns 'unknown', 'ended' when nothing of it was left, or 'cancelled'.
local root, reason, call, keep, limit = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local f = redis.call('HMGET', runkey(root), 's', 'Xc')
if not f[1] then return 'unknown' end
if f[2] == call then return 'cancelled' end

-- The youngest come first, so that none gets its turn because another one has left.
local left = {}
local function gather(id)
  local g = redis.call('HMGET', runkey(id), 's', 'K')
  for n = tonumber(g[2]) or 0, 1, -1 do
    local child = redis.call('HGET', runkey(id), 'K' .. n)
    if redis.call('HGET', runkey(child), 'u') == id then gather(child) end
  end
  if g[1] ~= 'e' and g[1] ~= 'f' then left[#left + 1] = id end
end
gather(root)
if #left == 0 then return 'ended' end

redis.call('HSET', runkey(root), 'Xc', call)
for _, id in ipairs(left) do
  if redis.call('HGET', runkey(id), 's') == 'c' then
    redis.call('HSET', runkey(id), 'X', reason)
  else
    lanes().withdraw(id)
    bury(id, 'cancelled', reason, keep, limit)
  end
end
return 'cancelled'
