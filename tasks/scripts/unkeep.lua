-- Take a start out of the inbox that will not be made. ARGV: prefix, run, an id of this call, journal limit, letter ('' for
-- none), journal text, … Returns 1, or 0 when it had left; sent again it gives the first answer.
local mark = P .. 'written:' .. ARGV[3]
if redis.call('EXISTS', mark) == 1 then return 1 end
if not let_start_go(ARGV[2]) then return 0 end
redis.call('SET', mark, '', 'PX', 60000)
if ARGV[5] ~= '' then letter(ARGV[2] .. '.0', ARGV[5]) end
for i = 6, #ARGV do note(ARGV[4], ARGV[i]) end
return 1
