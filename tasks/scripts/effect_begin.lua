-- Begin a call, or get its recorded result. ARGV: prefix, run, step, token (the claim's), run and name in the ledger,
-- policy, journal entry without outcome, journal limit, seconds to keep the ledger, then why: lost, held, replayed.
-- Returns {'go'}, {'stale'}, {'done', value} or {'unknown', value}; sent again it gives the first answer again.
local run, step, token, home, name, policy, entry, limit = unpack(ARGV, 2, 9)
if not live(run, step, token) then
  count('stale effects')
  return {'stale'}
end
local r = parsed(redis.call('HGET', ledger(home), name))
local mine = same_try(r, run, step, token)
if r.state == 'done' then
  if not mine then
    r.run, r.step, r.token = run, step, token
    written(home, name, r)
    told(limit, entry, 'replayed', ARGV[13])
  end
  return {'done', r.value}
end
if r.state == 'intended' and mine then return {'go'} end
if r.state == 'intended' then
  told(limit, entry, 'unknown', ARGV[11])
  r.state, r.value = 'unknown', ARGV[11]
end
if r.state == 'unknown' and (r.policy == 'hold' or policy == 'hold') then
  r.policy = 'hold'
  written(home, name, r)
  told(limit, entry, 'held', ARGV[12])
  return {'unknown', r.value}
end
written(home, name, {state = 'intended', token = token, policy = policy, run = run, step = step, value = ''})
redis.call('EXPIRE', ledger(home), ARGV[10])
return {'go'}
