-- Write by hand what became of an unknown effect. ARGV: prefix, run and name in the ledger, state, value, journal entry,
-- journal limit. Returns 'ok', 'absent', or the state it is in.
local home, name, state, value = unpack(ARGV, 2, 5)
local text = redis.call('HGET', ledger(home), name)
if not text then return 'absent' end
local r = parsed(text)
if r.token == '0' and r.state == state and r.value == value then return 'ok' end
if r.state == 'done' or r.state == 'failed' then return r.state end
if r.state == 'intended' and live(r.run, r.step, r.token) then return r.state end
r.state, r.token, r.value = state, '0', value
written(home, name, r)
note(ARGV[7], ARGV[6])
return 'ok'
