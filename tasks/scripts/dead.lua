-- Take a dead letter away, to be retried (as the given run) or for good. ARGV: prefix, letter, journal text, limit, an id
-- of this call, the run of its ledger, how long that is kept then (s), keep, then for a retry: JSON (see tasks/wire.py),
-- wire. Returns {'ok'}, {'gone'} or {'plan'}; sent again it gives the first answer.
local member, mark = ARGV[2], P .. 'written:' .. ARGV[5]
if redis.call('EXISTS', mark) == 1 then return {'ok'} end
if redis.call('HEXISTS', P .. 'dl', member) == 0 then return {'gone'} end
local r = ARGV[9] and cjson.decode(ARGV[9])
if r and planless(r) then return {'plan'} end
redis.call('SET', mark, '', 'PX', 60000)
redis.call('HDEL', P .. 'dl', member)
redis.call('ZREM', P .. 'dead', member)
redis.call('EXPIRE', P .. 'fx:' .. ARGV[6], ARGV[7])
note(ARGV[4], ARGV[3])
if r then begin(r, ARGV[10], ARGV[4], ARGV[8]) end
return {'ok'}
