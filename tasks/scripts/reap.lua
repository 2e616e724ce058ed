-- Take back what was lost. ARGV: prefix, heartbeat TTL ms, grace ms for vanished messages, keep, limit, then list names.
-- Returns {claims taken from the dead, overdue claims taken, vanished messages pushed again, 'run worker why', …}.
local now, ttl, grace, keep, limit = clock(), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local since = tonumber(redis.call('GET', P .. 'beat:since') or now)
local last = tonumber(redis.call('GET', P .. 'beat:last') or 0)
local steady = now - since > ttl and now - last < ttl
local dead, overdue, vanished, told = 0, 0, 0, {}

local function lost(id, worker, why)
  redis.call('ZREM', P .. 'claims', id)
  local f = redis.call('HMGET', runkey(id), 's', 'A', 'i', 'o', 'x')
  if f[1] ~= 'c' then return false end
  told[#told + 1] = id .. ' ' .. worker .. ' ' .. why
  if f[2] == '1' then
    local text = cjson.encode({n = 'dead', r = id, o = f[4], i = f[3], y = 'arc lost', x = tonumber(f[5])})
    redis.call('HSET', P .. 'dl', id .. '.' .. f[5], cjson.encode({r = id, x = tonumber(f[5]), i = f[3], o = f[4],
      y = 'arc lost: the process that held the live resource is gone', at = now / 1000}))
    redis.call('ZADD', P .. 'dead', now, id .. '.' .. f[5])
    note(limit, text)
    finish(id, 'failed', 'arc lost', keep)
  else
    push(id)
  end
  return true
end

local claims = redis.call('ZRANGE', P .. 'claims', 0, 4999, 'WITHSCORES')
for i = 1, #claims, 2 do
  local id, deadline = claims[i], tonumber(claims[i + 1])
  local worker = redis.call('HGET', runkey(id), 'w') or ''
  if deadline < now then
    if lost(id, worker, 'overdue') then overdue = overdue + 1 end
  elseif steady then
    local seen = redis.call('ZSCORE', P .. 'workers', worker)
    if not seen or now - seen * 1000 > ttl then
      if lost(id, worker, 'dead') then dead = dead + 1 end
    end
  end
end

-- A message is gone when its list's oldest one is younger and nobody has claimed it: a worker popped it and died.
for i = 6, #ARGV do
  local list, oldest = ARGV[i], '+inf'
  local message = redis.call('LINDEX', list, -1)
  if message then
    local ok, env = pcall(cjson.decode, message)
    local seq = ok and type(env) == 'table' and type(env.headers) == 'table' and string.match(env.headers.id or '', '%.(%d+)$')
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
      if f[1] == 'q' and f[2] == step and f[3] == seq then
        push(id)
        vanished = vanished + 1
        told[#told + 1] = id .. ' - vanished'
      end
    end
  end
end
redis.call('ZREMRANGEBYSCORE', P .. 'missing', '-inf', now - 60000)
return {dead, overdue, vanished, unpack(told)}
