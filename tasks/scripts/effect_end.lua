-- Write what a begun call came to. ARGV: prefix, run, step, token (the claim's), run and name in the ledger, state, policy,
-- value, journal entry, journal limit. Returns 'ok', or 'stale' when another try has begun the call: that one counts.
local run, step, token, home, name, state, policy, value, entry, limit = unpack(ARGV, 2, 11)
local r = parsed(redis.call('HGET', ledger(home), name))
local mine = same_try(r, run, step, token)
if mine and (r.state == 'done' or r.state == state) then return 'ok' end
-- The ledger may have lost the intent with Redis' last second; the claim's owner still knows.
if not mine and not (r.state == nil and live(run, step, token)) then
  count('stale effects')
  return 'stale'
end
written(home, name, {state = state, token = token, policy = policy, run = run, step = step, value = value})
note(limit, entry)
return 'ok'
