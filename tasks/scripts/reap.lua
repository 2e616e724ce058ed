-- Take back what was lost. ARGV: prefix, heartbeat TTL ms, grace ms for vanished messages, keep, limit, then list names.
-- Returns {claims taken from the dead, overdue claims taken, vanished messages pushed again, 'run worker why', …}.
local now, ttl, grace, keep, limit = clock(), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local since = tonumber(redis.call('GET', P .. 'beat:since') or now)
local last = tonumber(redis.call('GET', P .. 'beat:last') or 0)
local steady = now - since > ttl and now - last < ttl
local DEAD, OVERDUE, VANISHED = 1, 2, 3
local reply = {0, 0, 0}
local ARC = {dead = 'arc lost: the process that held the live resource is gone',
  overdue = 'arc lost: its step ran over its limit, and no other process has the live resource'}

local function tell(kind, text)
  reply[kind] = reply[kind] + 1
  reply[#reply + 1] = text
end

local function lost(id, worker, why)
  redis.call('ZREM', P .. 'claims', id)
  local f = redis.call('HMGET', runkey(id), 's', 'A', 'X')
  if f[1] ~= 'c' then return end
  tell(why == 'dead' and DEAD or OVERDUE, id .. ' ' .. worker .. ' ' .. why)
  if f[3] then return bury(id, 'cancelled', f[3], keep, limit) end
  if f[2] == '1' then return bury(id, 'failed', 'arc lost', keep, limit, ARC[why]) end
  if why == 'overdue' then redis.call('HINCRBY', runkey(id), 'O', 1) end
  push(id)
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

-- A message is gone when its list's oldest one is younger and nobody has claimed it: a worker popped it and died.
for i = 6, #ARGV do
  local list, oldest = ARGV[i], '+inf'
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
      redis.call('ZREM', P .. 'queued:' .. list, member)
      local id, step, seq = string.match(member, '^(.*)%.(%d+)%.(%d+)$')
      local f = redis.call('HMGET', runkey(id), 's', 'x', 'q')
      if f[1] == 'q' and (f[2] or '0') == step and f[3] == seq then
        push(id)
        tell(VANISHED, id .. ' - vanished')
      end
    end
  end
end
redis.call('ZREMRANGEBYSCORE', P .. 'missing', '-inf', now - 60000)
return reply
