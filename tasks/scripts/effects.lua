-- Shared by the scripts of the effect ledger, put in front of each of them after lib.lua. A record is
-- 'state token policy run step\nvalue' in the hash fx:<run> under 'step:key'; docs/redis.md explains it.
local OPEN = P .. 'open'

local function ledger(run) return P .. 'fx:' .. run end

local function parsed(text)
  if not text then return {} end
  local state, token, policy, run, step, at = string.match(text, '^(%a+) (%d+) (%a+) (%S*) (%d+)()\n')
  return {state = state, token = token, policy = policy, run = run, step = step, value = string.sub(text, at + 1)}
end

local function written(run, name, r)
  redis.call('HSET', ledger(run), name,
    table.concat({r.state, r.token, r.policy, r.run, r.step}, ' ') .. '\n' .. r.value)
  if r.policy ~= 'hold' then return end
  if r.state == 'intended' or r.state == 'unknown' then
    redis.call('ZADD', OPEN, 'NX', clock(), run .. ' ' .. name)
    redis.call('ZREMRANGEBYRANK', OPEN, 0, -MAX_LETTERS - 1)
  else
    redis.call('ZREM', OPEN, run .. ' ' .. name)
  end
end

-- Whether the try (run, step, token) holds its claim.
local function live(run, step, token)
  local f = redis.call('HMGET', runkey(run), 's', 'x', 't')
  return f[1] == 'c' and (f[2] or '0') == step and f[3] == token
end

local function same_try(r, run, step, token)
  return r.run == run and r.step == step and r.token == token
end

-- A journal entry with an outcome and reason added; it comes as JSON without them.
local function told(limit, entry, outcome, reason)
  note(limit, string.sub(entry, 1, -2) .. ',"z":' .. cjson.encode(outcome) .. ',"y":' .. cjson.encode(reason) .. '}')
end
