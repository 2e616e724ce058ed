-- Let messages that have waited too long behind more urgent ones go ahead of them, the oldest first. At most `share` at
-- a time are ahead in each queue, so that a backlog can't turn the priorities round.
-- ARGV: prefix, limit in ms, share, then queue names. Returns how many were moved.
local limit, share, moved = tonumber(ARGV[2]), tonumber(ARGV[3]), 0

-- The oldest message of a list that is wanted: its run and when it was pushed. Copies too many are thrown away.
local function oldest(list)
  while true do
    local message = redis.call('LINDEX', list, -1)
    local ok, env = pcall(cjson.decode, message or '')
    if not ok or type(env) ~= 'table' or type(env.headers) ~= 'table' or env.headers.task ~= 'lumia.step' then return nil end
    local id, step, seq = string.match(env.headers.id, '^(.*)%.(%d+)%.(%d+)$')
    local f = redis.call('HMGET', runkey(id), 's', 'x', 'q', 'Q')
    if f[1] == 'q' and (f[2] or '0') == step and f[3] == seq then return id, tonumber(f[4]), env.headers.id end
    redis.call('RPOP', list)
    count('dropped')
  end
end

for i = 4, #ARGV do
  local queue = ARGV[i]
  for _ = redis.call('LLEN', listname(queue, AGED)) + 1, share do
    local best, since, place, member
    for at = 3, #LISTS do
      local id, pushed, name = oldest(listname(queue, LISTS[at]))
      if id and clock() - pushed >= limit and (not since or pushed < since) then
        best, since, place, member = id, pushed, LISTS[at], name
      end
    end
    if not best then break end
    local list = listname(queue, place)
    redis.call('RPOP', list)
    redis.call('ZREM', P .. 'queued:' .. list, member)
    redis.call('HSET', runkey(best), 'p', AGED, 'P', place)
    push(best)
    redis.call('HSET', runkey(best), 'Q', since)
    moved = moved + 1
  end
end
return moved
