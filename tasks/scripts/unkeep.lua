-- Take a start out of the inbox that will not be made. ARGV: prefix, run, journal limit, letter ('' for none), journal
-- text, … Returns 1, or 0 when it had left.
if not let_start_go(ARGV[2]) then return 0 end
if ARGV[4] ~= '' then letter(ARGV[2] .. '.0', ARGV[4]) end
for i = 5, #ARGV do note(ARGV[3], ARGV[i]) end
return 1
