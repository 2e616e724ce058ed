-- Take, keep or give back the one archiver's lease. ARGV: prefix, worker, ms (0 gives it back). Returns 1 for its holder.
local name = P .. 'journal:lease'
local holder = redis.call('GET', name)
if holder and holder ~= ARGV[2] then return 0 end
if ARGV[3] == '0' then return redis.call('DEL', name) end
redis.call('SET', name, ARGV[2], 'PX', ARGV[3])
return 1
