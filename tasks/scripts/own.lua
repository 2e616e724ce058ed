-- Take, keep or give back a lease. ARGV: prefix, name, holder, ms (0 gives it back). Returns its fencing number, which
-- grows with every new holder, or 0 for who doesn't hold it (any more).
local name = P .. 'own:' .. ARGV[2]
local held = redis.call('GET', name)
local holder, fence
if held then holder, fence = string.match(held, '^(.*) (%d+)$') end
if held and holder ~= ARGV[3] then return 0 end
if ARGV[4] == '0' then
  redis.call('DEL', name)
  return 0
end
fence = fence or string.format('%.0f', redis.call('INCR', P .. 'token'))
redis.call('SET', name, ARGV[3] .. ' ' .. fence, 'PX', ARGV[4])
return tonumber(fence)
