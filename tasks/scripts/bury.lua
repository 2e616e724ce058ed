-- End the run of a claim that can't be executed; it is a dead letter. ARGV: prefix, run, token, reason, keep, limit.
local f = redis.call('HMGET', runkey(ARGV[2]), 's', 't')
if f[1] == 'c' and f[2] == ARGV[3] then bury(ARGV[2], 'failed', ARGV[4], ARGV[5], ARGV[6]) end
return 'ok'
