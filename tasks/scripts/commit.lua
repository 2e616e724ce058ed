-- End a step: outcome, Box, store writes, journal, children, retry or next message, all or nothing.
-- ARGV: prefix, JSON (see tasks/transport.py), Box wire ('' = unchanged), then the children as JSON, wire, JSON, wire, …
-- Returns {'ok'}, {'fused'}, {'again'} or a batched claim; {'stale'}, {'plan'} (a child's is missing) or
-- {'refused', key, what}, {'full', …} or {'limited', …} before anything was written.
local c = cjson.decode(ARGV[2])
local key = runkey(c.r)
local f = redis.call('HMGET', key, 's', 'x', 't', 'lc', 'la', 'X', 'l', 'A', 'S', 'm', 'B', 'O', 'D', 'F', 'W')
local mark = c.x .. ':' .. c.t
-- Commits of quick steps before this one, which have waited for it. c.on: this one has waited, too, and the step after it
-- is under way: a run that was asked to end does so with that.
local before = c.g or {}
local from = before[1] and before[1].x or c.x
if f[4] == mark then
  if f[5] == 'ok' or f[5] == 'fused' or f[5] == 'again' then return {f[5]} end
  local follower, token = string.match(f[5], '^(%S+) (%d+)$')
  local its = redis.call('HMGET', runkey(follower), 's', 't')
  if its[1] == 'c' and its[2] == token then return taken(follower) end
  return {'ok'}
end
if f[1] ~= 'c' or (f[2] or '0') ~= tostring(from) or f[3] ~= tostring(c.t) then
  count('stale')
  return {'stale'}
end

local children, asked = {}, {}
for i = 4, #ARGV, 2 do
  children[#children + 1] = {cjson.decode(ARGV[i]), ARGV[i + 1]}
  if planless(children[#children][1]) then return {'plan'} end
  asked[#asked + 1], asked[#asked + 2] = children[#children][1], ARGV[i + 1]
end
local refused = refuses(c.store) or refused_by_lanes(asked)
if refused then return refused end

local first = not f[9] and redis.call('GET', boxkey(c.r))
if ARGV[3] ~= '' then redis.call('SET', boxkey(c.r), ARGV[3]) end
apply(c.store)
-- One write of the run record per commit: what the step left, what follows, and the answer for when it is sent again.
local changes = {'lc', mark}
local function change(...)
  for _, word in ipairs({...}) do changes[#changes + 1] = word end
end
local n = tonumber(f[9]) or 0
local function recorded(text)
  n = n + 1
  change('S' .. n, text)
end
local function noted(text, ...)
  local more = {...}
  if first and first ~= '' then more[#more + 1], more[#more + 2] = 'b', first end
  first = nil
  note(c.limit, text, unpack(more))
end
for _, one in ipairs(before) do
  recorded(one.rec)
  noted(one.j)
end
if c.rec then recorded(c.rec) end
if n > 0 then change('S', n) end
if before[1] and c.op ~= 'next' then change('x', c.x, 'h', c.h) end
local function answer(text)
  change('la', text)
  redis.call('HSET', key, unpack(changes))
  return {text}
end

local cancelled = f[6] and not c.on and not (c.op == 'end' and c.dead)
if cancelled and not c.j then
  local reply = answer('ok')
  bury(c.r, 'cancelled', f[6], c.keep, c.limit)
  return reply
end
local op = c.op
if cancelled then
  op, c.z, c.y = 'end', 'cancelled', f[6]
end
if c.j then
  if op == 'end' then noted(c.j, 'e', c.z, 'y', c.y) else noted(c.j) end
end
if c.dead then
  letter(c.r .. '.' .. c.x, c.dead)
  note(c.limit, c.jd)
end
for _, child in ipairs(children) do
  local in_vain = cancelled and child[1].R
  if not in_vain and not known(child[1], c.window) then accept(child[1], child[2], c, f[6]) end
end

if op == 'next' then
  change('x', c.nx, 'h', c.h, 'l', c.l, 'to', c.to)
  if c.m or f[10] then change('m', c.m or '') end
  if f[11] or f[12] or f[13] or f[14] or f[15] then redis.call('HDEL', key, 'B', 'O', 'D', 'F', 'W') end
  if c.fuse then
    change('a', 1)
    redis.call('ZADD', P .. 'claims', clock() + c.to, c.r)
    return answer('fused')
  end
  change('a', 0)
  redis.call('ZREM', P .. 'claims', c.r)
  local reply = answer('ok')
  if c.delay > 0 then postpone(c.r, c.delay) else push(c.r) end
  return reply
end
if op == 'retry' or op == 'handback' then
  if c.F then change('F', c.F) end
  if op == 'handback' then
    redis.call('HINCRBY', key, 'a', -1)
    if not c.wt then redis.call('HINCRBY', key, 'B', 1) end
  end
  if c.W then change('W', c.W) end
  if f[8] == '1' then
    redis.call('HINCRBY', key, 'a', 1)
    change('t', redis.call('INCR', P .. 'token'))
    redis.call('ZADD', P .. 'claims', clock() + c.to, c.r)
    return answer('again')
  end
  redis.call('ZREM', P .. 'claims', c.r)
  local reply = answer('ok')
  if c.rl then lanes().let_go(c.r) end
  postpone(c.r, c.delay)
  return reply
end
change('s', 'e', 'z', c.z, 'y', c.y, 'e', clock())
local reply = answer('ok')
leave(c.r, c.keep)
if c.batch then
  local found = take_next(f[7] or QUEUE, c.w)
  if found[1] == 'claimed' then
    redis.call('HSET', key, 'la', found[2] .. ' ' .. found[4])
    return found
  end
end
return reply
