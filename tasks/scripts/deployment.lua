-- Shared by the scripts of deployments, put in front of each of them after lib.lua; docs/hot-reload.md explains them.
-- The same decisions are in lumia/inmemory_deployments.py.
local D = P .. 'deployment'
local ANSWERS, TABLE, TURN = D .. ':answers', D .. ':table', D .. ':turn'
local MEMBERS, ABOUT = P .. 'members', P .. 'member'
local ALIVE_MS = 5000
local LOADING_MS = 15000
local BREAK_MS = 2000
local KEPT = 50

-- Make a route table the published one, unless it says what is published already. Returns its number.
local function publish(text)
  local known = redis.call('HMGET', P .. 'routes', 'number', 'table')
  if known[2] == text then return tonumber(known[1]) end
  local number = redis.call('INCR', P .. 'routes:number')
  redis.call('HSET', P .. 'routes', 'number', number, 'table', text)
  return number
end

local function heard(name, ms)
  local at = redis.call('ZSCORE', MEMBERS, name)
  return at and tonumber(at) > clock() - ms
end

local function live() return redis.call('ZRANGEBYSCORE', MEMBERS, '(' .. clock() - ALIVE_MS, '+inf') end

-- Somebody looks. When nobody did for a while it was the broker that was away.
local function note_look()
  local seen = tonumber(redis.call('HGET', D, 'seen') or 0)
  if clock() < seen or clock() - seen > BREAK_MS then redis.call('HSET', D, 'calm', clock()) end
  redis.call('HSET', D, 'seen', clock())
end

-- What members have said: name → {s = loading, ready or failed, y = reasons}.
local function answers()
  local rows, found = redis.call('HGETALL', ANSWERS), {}
  for i = 1, #rows, 2 do found[rows[i]] = cjson.decode(rows[i + 1]) end
  return found
end

-- The live members that are still waited for, by name.
local function open(said)
  local names, known = {}, {}
  local function add(name)
    if not known[name] and not (said[name] and said[name].s == 'ready') then names[#names + 1] = name end
    known[name] = true
  end
  for _, name in ipairs(live()) do add(name) end
  for name, answer in pairs(said) do
    if answer.s == 'loading' and heard(name, LOADING_MS) then add(name) end
  end
  table.sort(names)
  return names
end

local function decide(said, reasons)
  local f = redis.call('HMGET', D, 'number', 'wanted', 'began')
  local state = reasons[1] and 'rolled back' or 'active'
  redis.call('HSET', D, 'state', state)
  if state == 'active' then
    redis.call('HSET', D, 'active', f[1], 'active_wanted', f[2])
    local text = redis.call('GET', TABLE)
    if text then publish(text) end
  end
  local ready = 0
  for _, answer in pairs(said) do if answer.s == 'ready' then ready = ready + 1 end end
  redis.call('LPUSH', D .. 's', cjson.encode({n = tonumber(f[1]), s = state, o = cjson.decode(f[2]).operation,
    y = reasons[1] and reasons or nil, r = ready, at = clock() / 1000, ms = clock() - f[3]}))
  redis.call('LTRIM', D .. 's', 0, KEPT - 1)
  redis.call('DEL', ANSWERS, TABLE)
end

-- Decide what is being prepared, if it can be.
local function settle()
  local f = redis.call('HMGET', D, 'state', 'until', 'calm', 'began')
  if f[1] ~= 'preparing' then return end
  local said, bad = answers(), {}
  local function blame(name, why) bad[#bad + 1] = {name, why} end
  for name, answer in pairs(said) do
    if answer.s == 'failed' then for _, why in ipairs(answer.y) do blame(name, why) end end
  end
  local some_gone = #live() < redis.call('ZCARD', MEMBERS)
  if some_gone and clock() - (f[3] or 0) < ALIVE_MS and not bad[1] then return end
  for name, answer in pairs(said) do
    if answer.s == 'loading' and not heard(name, LOADING_MS) then blame(name, 'died while it loaded') end
  end
  local late = open(said)
  if not bad[1] and late[1] and clock() >= tonumber(f[2]) then
    for _, name in ipairs(late) do blame(name, 'has not answered within ' .. (f[2] - f[4]) / 1000 .. ' s') end
  end
  table.sort(bad, function(a, b) return a[1] .. a[2] < b[1] .. b[2] end)
  if bad[1] or not late[1] then decide(said, bad) end
end

local function standing()
  settle()
  local f = redis.call('HMGET', D, 'number', 'state', 'active')
  return {f[1] or '0', f[2] or '', f[3] or '0'}
end
