-- How a process fares with a deployment. ARGV: prefix, number, member, answer JSON {s, y}, route table JSON or ''.
-- Returns {number, state, active}; what is said of a deployment that is over is forgotten.
local f = redis.call('HMGET', D, 'number', 'state')
if f[1] == ARGV[2] and f[2] == 'preparing' then
  redis.call('HSET', ANSWERS, ARGV[3], ARGV[4])
  if ARGV[5] ~= '' and redis.call('SET', TABLE, ARGV[5], 'NX') then
    for _, route in ipairs(cjson.decode(ARGV[5]).routes) do redis.call('SADD', P .. 'queues', route.queue) end
  end
end
return standing()
