-- Take a dead letter away, to be retried (as the given runs) or for good. ARGV: prefix, letter, journal text, limit, an id
-- of this call, keep, then for each run: JSON (see tasks/wire.py), wire. Returns {'ok'}, {'gone'} or {'plan'}; sent again
-- it gives the first answer.
local member, mark = ARGV[2], P .. 'written:' .. ARGV[5]
if redis.call('EXISTS', mark) == 1 then return {'ok'} end
if redis.call('HEXISTS', P .. 'dl', member) == 0 then return {'gone'} end
local runs = {}
for i = 7, #ARGV, 2 do
  runs[i] = cjson.decode(ARGV[i])
  if planless(runs[i]) then return {'plan'} end
end
redis.call('SET', mark, '', 'PX', 60000)
drop_letter(member)
note(ARGV[4], ARGV[3])
for i = 7, #ARGV, 2 do begin(runs[i], ARGV[i + 1], ARGV[4], ARGV[6]) end
return {'ok'}
