-- Accept runs in one atomic step. ARGV: prefix, header JSON {routes, window, keep, limit}, then per run: JSON, wire.
-- Returns {'ok', run, duplicate, run, …}, {'stale'} when a newer route table is published, or {'plan'} when one is missing.
local head = cjson.decode(ARGV[2])
if head.routes then
  local published = redis.call('HGET', P .. 'routes', 'number')
  if published ~= tostring(head.routes) then return {'stale', published or ''} end
end
for i = 3, #ARGV, 2 do
  if planless(cjson.decode(ARGV[i])) then return {'plan'} end
end
local first = cjson.decode(ARGV[3])
local there = known(first, head.window)
local answer = {'ok'}
for i = 3, #ARGV, 2 do
  local r = cjson.decode(ARGV[i])
  answer[#answer + 1] = (i == 3 and there) or r.r
  answer[#answer + 1] = (i == 3 and there and there ~= r.r) and '1' or '0'
  if not there then begin(r, ARGV[i + 1], head.limit, head.keep) end
end
return answer
