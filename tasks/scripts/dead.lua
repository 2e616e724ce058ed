-- Take a dead letter away, to be retried (as the given run) or for good. ARGV: prefix, letter, journal text, limit, an id
-- of this call, keep, then for a retry: JSON (see tasks/wire.py), wire. Returns {'ok'}, {'gone'} or {'plan'}; sent again it gives the first answer.
local member, mark = ARGV[2], P .. 'written:' .. ARGV[5]
if redis.call('EXISTS', mark) == 1 then return {'ok'} end
if redis.call('HEXISTS', P .. 'dl', member) == 0 then return {'gone'} end
local r = ARGV[7] and cjson.decode(ARGV[7])
if r and planless(r) then return {'plan'} end
redis.call('SET', mark, '', 'PX', 60000)
drop_letter(member)
note(ARGV[4], ARGV[3])
if r then begin(r, ARGV[8], ARGV[4], ARGV[6]) end
return {'ok'}
