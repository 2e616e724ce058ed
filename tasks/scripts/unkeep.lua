-- Take a start out of the inbox that will not be made; its run has ended. ARGV: prefix, run, an id of this call, journal
-- limit, keep, fields of its record (JSON), Box, letter ('' for none), journal text, … Returns 1, or 0 when it had left;
-- sent again it gives the first answer.
local id, mark = ARGV[2], P .. 'written:' .. ARGV[3]
if redis.call('EXISTS', mark) == 1 then return 1 end
if not let_start_go(id) then return 0 end
redis.call('SET', mark, '', 'PX', 60000)
local record = {'b', clock(), 'e', clock(), 's', 'f'}
for name, value in pairs(cjson.decode(ARGV[6])) do record[#record + 1], record[#record + 2] = name, value end
redis.call('HSET', runkey(id), unpack(record))
redis.call('PEXPIRE', runkey(id), ARGV[5])
redis.call('SET', boxkey(id), ARGV[7])
redis.call('PEXPIRE', boxkey(id), ARGV[5])
redis.call('PUBLISH', P .. 'done', id)
if ARGV[8] ~= '' then letter(id .. '.0', ARGV[8]) end
note(ARGV[4], ARGV[9])
note_first(id, ARGV[4], ARGV[10])
for i = 11, #ARGV do note(ARGV[4], ARGV[i]) end
return 1
