-- Accept runs in one atomic step. ARGV: prefix, header JSON {routes, window, keep, limit, kept, turn}, then per run: JSON,
-- wire. Returns {'ok', run, flag, run, …} (flag 1: a duplicate, j: joined that run), {'stale'} when a newer route table is
-- published, {'plan'} when one is missing, {'kept', run, flag, …} from the inbox, or {'full', …} and {'limited', …} (see
-- lanes.lua).
-- kept: these are in the inbox and leave it now; {'gone'} when they have left it, {'later'} when they are not the first of
-- it: one that fails in mid-trip and succeeds when it is sent again must not be overtaken by what follows it.
-- turn: {trip and lane, number}, of several of one lane in a trip; {'later'} for one whose predecessor was not looked at.
-- Others that have to keep the order of their lane (`il`) line up in the inbox while it holds any.
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
if head.turn then
  local name, number = P .. 'trip:' .. head.turn[1], head.turn[2]
  local last = tonumber(redis.call('GET', name) or 0)
  if last < number - 1 then return {'later'} end
  if last < number then redis.call('SET', name, number, 'PX', TRIP_MS) end
end
if head.kept then
  if redis.call('HEXISTS', P .. 'kept', first.r) == 0 then return {'gone'} end
  if redis.call('LINDEX', P .. 'inbox', 0) ~= first.r then return {'later'} end
elseif first.il and redis.call('EXISTS', P .. 'inbox') == 1 then
  local also, answer = {}, {'kept'}
  for i = 1, #requests, 2 do
    local r = requests[i]
    if i > 1 then also[#also + 1] = {r.i, requests[i + 1]} end
    answer[#answer + 1], answer[#answer + 2] = r.r, '0'
  end
  local kept = {f = first.n or 'pipe', i = first.i, k = first.k, p = tonumber(first.p), b = requests[2]}
  if #also > 0 then kept.a = also end
  local there = redis.call('EXISTS', runkey(first.r)) == 1 and first.r
    or keep_start(first.r, first.dd or '', cjson.encode(kept), head.window)
  if there ~= first.r then answer[2], answer[3] = there, '1' end
  return answer
end
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
if head.kept then let_start_go(first.r) end
return answer
