-- Apply store writes outside of a step, all or none. ARGV: prefix, JSON list of writes, an id of this call: the same one
-- sent again adds nothing.
local ops, mark = cjson.decode(ARGV[2]), P .. 'written:' .. ARGV[3]
if redis.call('EXISTS', mark) == 1 then return {'ok'} end
local refused = refuses(ops)
if refused then return refused end
apply(ops)
redis.call('SET', mark, '', 'PX', 60000)
return {'ok'}
