-- Apply store writes outside of a step, all or none. ARGV: prefix, JSON list of writes.
local ops = cjson.decode(ARGV[2])
local refused = refuses(ops)
if refused then return refused end
apply(ops)
return {'ok'}
