-- Raise an alarm, or end it. ARGV: prefix, name, what ('' ends it), the way out.
if ARGV[3] == '' then return redis.call('HDEL', P .. 'alarms', ARGV[2]) end
alarm(ARGV[2], ARGV[3], ARGV[4])
return 1
