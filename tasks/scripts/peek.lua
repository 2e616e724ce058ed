-- The oldest starts of the inbox. ARGV: prefix, how many at most, how many bytes of text after which no more follow.
-- Returns {run, text, …}.
local found, bytes = {}, 0
for _, id in ipairs(redis.call('LRANGE', P .. 'inbox', 0, ARGV[2] - 1)) do
  if bytes > tonumber(ARGV[3]) then break end
  local text = redis.call('HGET', P .. 'kept', id)
  if text then
    found[#found + 1], found[#found + 2] = id, text
    bytes = bytes + #text
  else
    redis.call('LREM', P .. 'inbox', 1, id)
  end
end
return found
