-- Publish a route table unless it says what is published already. ARGV: prefix, table JSON, the deployment it was loaded
-- for ('' for any). Returns its number, or -1 and publishes nothing when another deployment is active by now.
if ARGV[3] and ARGV[3] ~= '' and ARGV[3] ~= (redis.call('HGET', D, 'active') or '0') then return -1 end
return publish(ARGV[2])
