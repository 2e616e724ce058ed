-- The entries from one place to another are in the archive. ARGV: prefix, from, to, number of rows. Changes nothing and
-- returns 0 when the archive is elsewhere: another process has archived, or entries were dropped meanwhile.
if archived() ~= ARGV[2] then return 0 end
redis.call('SET', P .. 'journal:archived', ARGV[3])
redis.call('INCRBY', P .. 'journal:held', ARGV[4])
return 1
