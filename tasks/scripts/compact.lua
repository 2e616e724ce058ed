-- Reduce finished runs whose story is in the archive to what waiting for them and a second start of them need. ARGV:
-- prefix, runs. A run's parent may have finished with it, and is reduced too. Returns how many were.
local KEPT = {'s', 'z', 'y', 'b', 'e', 'i', 'n', 'k', 'o', 'K'}
local done = 0

local function compact(id)
  local key = runkey(id)
  local f = redis.call('HMGET', key, 's', 'u', 'K', 'd')
  if f[1] ~= 'f' or not f[4] then return end
  local left = redis.call('PTTL', key)
  local children, kept = {}, {}
  for n = 1, tonumber(f[3]) or 0 do children[n] = redis.call('HGET', key, 'K' .. n) end
  local values = redis.call('HMGET', key, unpack(KEPT))
  for i, name in ipairs(KEPT) do
    if values[i] and values[i] ~= '' and not (name == 'o' and values[i] == id) then
      kept[#kept + 1], kept[#kept + 2] = name, values[i]
    end
  end
  for n, child in ipairs(children) do kept[#kept + 1], kept[#kept + 2] = 'K' .. n, child end
  -- A ledger that outlives its run is one that a dead letter or a retry needs.
  local ledger = redis.call('PTTL', P .. 'fx:' .. id)
  if ledger >= 0 and ledger <= left then redis.call('DEL', P .. 'fx:' .. id) end
  redis.call('DEL', key, boxkey(id))
  redis.call('HSET', key, unpack(kept))
  if left > 0 then redis.call('PEXPIRE', key, left) end
  done = done + 1
  return f[2]
end

for i = 2, #ARGV do
  local id = ARGV[i]
  while id and id ~= '' do id = compact(id) end
end
return done
