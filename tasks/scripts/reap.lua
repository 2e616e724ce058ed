-- Take back what was lost. ARGV: prefix, heartbeat TTL ms, grace ms for vanished messages, keep, limit, then list names.
-- Returns {claims taken from the dead, overdue claims taken, vanished messages pushed again, 'run worker why', …}.
local now, ttl, grace, keep, limit = clock(), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local since = tonumber(redis.call('GET', P .. 'beat:since') or now)
local last = tonumber(redis.call('GET', P .. 'beat:last') or 0)
local steady = now - since > ttl and now - last < ttl
local MAX_LOOK = 20000
local DEAD, OVERDUE, VANISHED = 1, 2, 3
local reply = {0, 0, 0}
local ARC = {dead = 'arc lost: the process that held the live resource is gone',
  overdue = 'arc lost: its step ran over its limit, and no other process has the live resource'}

local function tell(kind, text)
  reply[kind] = reply[kind] + 1
  reply[#reply + 1] = text
end

-- Count and tell a lost try: it is kept with the run for its dead letter, and stands in the journal.
local COUNTER = {dead = 'D', overdue = 'O'}
local TOLD = {dead = 'its worker died', overdue = 'hung: not done in time'}
-- due: when the claim would have ended, from which follows when the try began.
local function note_lost(id, worker, why, due)
  local f = redis.call('HMGET', runkey(id), 'i', 'o', 'k', 'x', 'h', 'a', 'F', 'to', 'D')
  local alone = tonumber(f[9] or 0) >= ALONE_AFTER and ALONE_START or 0
  local lasted = math.max(0, now - (due - (f[8] or 0) - alone))
  local attempt, row = tonumber(f[6]) or 0, nil
  row = cjson.encode({attempt, now / 1000, worker, TOLD[why], 1})
  redis.call('HSET', runkey(id), 'F', f[7] and string.sub(f[7], 1, -2) .. ',' .. row .. ']' or '[' .. row .. ']')
  redis.call('HINCRBY', runkey(id), COUNTER[why], 1)
  note(limit, cjson.encode({n = 'step', r = id, o = f[2] or nil, i = f[1], k = f[3] or nil, x = tonumber(f[4]) or 0, h = f[5],
    z = 'lost', y = TOLD[why], a = attempt, w = worker, m = lasted}))
end

-- Push what had its turn before ahead of everything that waits, as age.lua does: it has waited long enough.
local function push_ahead(id)
  local priority = tonumber(redis.call('HGET', runkey(id), 'p') or NORMAL)
  if priority ~= AGED then redis.call('HSET', runkey(id), 'p', AGED, 'P', priority) end
  push(id)
end

local function lost(id, worker, why)
  local due = redis.call('ZSCORE', P .. 'claims', id)
  redis.call('ZREM', P .. 'claims', id)
  local f = redis.call('HMGET', runkey(id), 's', 'A', 'X')
  if f[1] ~= 'c' then return end
  tell(why == 'dead' and DEAD or OVERDUE, id .. ' ' .. worker .. ' ' .. why)
  if f[3] then return bury(id, 'cancelled', f[3], keep, limit) end
  if f[2] == '1' then return bury(id, 'failed', 'arc lost', keep, limit, ARC[why]) end
  note_lost(id, worker, why, due)
  push_ahead(id)
end

-- The names of the messages in a list, as far as they can be looked through in one go.
local function waiting(list)
  local names = {}
  for _, message in ipairs(redis.call('LRANGE', list, -MAX_LOOK, -1)) do
    local name = string.match(message, '"task":"lumia%.step","id":"([^"]+)"')
    if name then names[name] = true end
  end
  return names
end

-- While Redis was away nobody could commit: for one TTL after that the living come first.
local claims = steady and redis.call('ZRANGE', P .. 'claims', 0, 4999, 'WITHSCORES') or {}
for i = 1, #claims, 2 do
  local id, deadline = claims[i], tonumber(claims[i + 1])
  local f = redis.call('HMGET', runkey(id), 'w', 'A')
  local worker = f[1] or ''
  if deadline < now then
    lost(id, worker, 'overdue')
  else
    -- A process without heartbeats (a gateway, a command) may execute a run with a live resource of its own.
    local seen = redis.call('ZSCORE', P .. 'workers', worker) or (f[2] ~= '1' and 0)
    if seen and now - seen * 1000 > ttl then lost(id, worker, 'dead') end
  end
end

-- A message is gone when its list's oldest one is younger and nobody has claimed it: a worker popped it and died. A copy
-- too many at the tail may be younger than those behind it, so before it is pushed again it is looked for.
for i = 6, #ARGV do
  local list, oldest, there = ARGV[i], '+inf', nil
  local message = redis.call('LINDEX', list, -1)
  if message then
    local ok, env = pcall(cjson.decode, message)
    local seq = ok and type(env) == 'table' and type(env.headers) == 'table' and string.match(tostring(env.headers.id), '%.(%d+)$')
    oldest = seq and '(' .. seq or '-inf'
  end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. 'queued:' .. list, '-inf', oldest, 'LIMIT', 0, 500)) do
    local first = redis.call('ZSCORE', P .. 'missing', member)
    if not first then
      redis.call('ZADD', P .. 'missing', now, member)
    elseif now - first > grace then
      redis.call('ZREM', P .. 'missing', member)
      there = there or waiting(list)
    end
    if first and now - first > grace and not there[member] then
      redis.call('ZREM', P .. 'queued:' .. list, member)
      local id, step, seq = string.match(member, '^(.*)%.(%d+)%.(%d+)$')
      local f = redis.call('HMGET', runkey(id), 's', 'x', 'q')
      if f[1] == 'q' and (f[2] or '0') == step and f[3] == seq then
        push_ahead(id)
        tell(VANISHED, id .. ' - vanished')
      end
    end
  end
end
redis.call('ZREMRANGEBYSCORE', P .. 'missing', '-inf', now - 60000)
return reply
