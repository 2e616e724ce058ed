-- Accept runs in one atomic step. ARGV: prefix, header JSON {routes, window, keep, limit}, then per run: JSON, wire.
-- Returns {'ok', run, flag, run, …} (flag 1: a duplicate, j: joined that run), {'stale'} when a newer route table is
-- published, {'plan'} when one is missing, or {'full', …} and {'limited', …} (see lanes.lua).
local head = cjson.decode(ARGV[2])
if head.routes then
  local published = redis.call('HGET', P .. 'routes', 'number')
  if published ~= tostring(head.routes) then return {'stale', published or ''} end
end
local requests = {}
for i = 3, #ARGV, 2 do
  local r = cjson.decode(ARGV[i])
  if planless(r) then return {'plan'} end
  requests[i - 2], requests[i - 1] = r, ARGV[i + 1]
end
local first = requests[1]
local refused = refused_by_lanes(requests, true)
if refused then return refused end
local there, joined = known(first, head.window)
local answer = {'ok'}
for i = 1, #requests, 2 do
  local r = requests[i]
  local run, flag = (i == 1 and there) or r.r, '0'
  if not there and i > 1 and not r.h and not r.cr then
    -- An event beside the run that nobody handles: the journal tells of it, there is nothing else to know.
    note(head.limit, r.j)
    note(head.limit, r.je, 'b', requests[i + 1])
  elseif not there then
    local host = accept(r, requests[i + 1], head)
    if host then run, flag = host, 'j' end
  elseif i == 1 and there ~= r.r then
    flag = joined and 'j' or '1'
  end
  answer[#answer + 1], answer[#answer + 2] = run, flag
end
return answer
