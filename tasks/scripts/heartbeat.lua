-- This process is alive. ARGV: prefix, worker, longest gap in ms. Remembers since when heartbeats flow unbroken, so that
-- a broker that was away, or whose clock was set back, does not look like a world of dead workers.
local now = clock()
local last = tonumber(redis.call('GET', P .. 'beat:last') or 0)
if now < last or now - last > tonumber(ARGV[3]) then redis.call('SET', P .. 'beat:since', now) end
redis.call('SET', P .. 'beat:last', now)
redis.call('ZADD', P .. 'workers', now / 1000, ARGV[2])
redis.call('ZREMRANGEBYSCORE', P .. 'workers', '-inf', now / 1000 - 3600)
return now
