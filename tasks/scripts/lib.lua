-- Shared by every script. ARGV[1] is the key prefix. Names of a run's fields are short because a run in flight is meant
-- to stay small; docs/redis.md lists them.
local P = ARGV[1]
local AGED = -1
local LISTS = {AGED, 0, 3, 6, 9}
local NORMAL = 3
local QUEUE = 'default'
local MAX_LETTERS = 10000
-- A step that was lost with its worker so often is executed in a process of its own, which takes so long (ms) to start.
local ALONE_AFTER = 2
local ALONE_START = 15000
-- How long (ms) a plan is kept after the last run that needs it, and effects after the dead letter that needs them.
local WEEK = 7 * 24 * 3600 * 1000
local JOINED_MS = 600000
-- How long (ms) it is known how far a trip of several starts has come.
local TRIP_MS = 60000
local MAX_STALE = 500
local lanes, enter, release, bury

-- The server's time in ms, the same for everything one script does.
local moment
local function clock()
  if not moment then
    local t = redis.call('TIME')
    moment = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return moment
end

local function runkey(id) return P .. 'r:' .. id end
local function boxkey(id) return P .. 'b:' .. id end

local function listname(queue, priority)
  if priority == 0 then return queue end
  return queue .. ':' .. priority
end

local function count(name) redis.call('HINCRBY', P .. 'stats', name, 1) end

-- What an entry counts for beside its own bytes: what the stream needs to hold it (measured, docs/journal.md).
local ENTRY_BYTES = 24

-- Tell the operator, until it is told that it is over: `lumia status` and `lumia doctor` show it, a worker logs it.
local function alarm(name, what, way_out)
  local known = redis.call('HGET', P .. 'alarms', name)
  local told = known and cjson.decode(known) or {since = clock() / 1000, count = 0}
  told.at, told.count, told.what, told.fix = clock() / 1000, told.count + 1, what, way_out
  redis.call('HSET', P .. 'alarms', name, cjson.encode(told))
end

local function place(id)
  local ms, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

local function not_after(id, other)
  local ms, number = place(id)
  local than, beyond = place(other)
  return ms < than or (ms == than and number <= beyond)
end

local function weight(fields)
  local bytes = ENTRY_BYTES
  for _, text in ipairs(fields) do bytes = bytes + #text end
  return bytes
end

local function archived() return redis.call('GET', P .. 'journal:archived') or '0-0' end

-- Take entries off the journal's old end, never the newest one, while `wanted(id, bytes left)` says so; at most about
-- `most`. Returns {n, bytes, first, last} of all of them and of those that nobody has archived.
local function shorten(most, wanted)
  local journal, left, safe = P .. 'journal', tonumber(redis.call('GET', P .. 'journal:bytes') or 0), archived()
  local all, lost = {n = 0, bytes = 0}, {n = 0, bytes = 0}
  local function add(sum, id, bytes)
    sum.n, sum.bytes, sum.first, sum.last = sum.n + 1, sum.bytes + bytes, sum.first or id, id
  end
  local going = true
  while going and all.n < most do
    local rows = redis.call('XRANGE', journal, '-', '+', 'COUNT', 101)
    local count = 0
    while going and count < #rows - 1 do
      local id, bytes = rows[count + 1][1], weight(rows[count + 1][2])
      going = wanted(id, left)
      if going then
        left, count = left - bytes, count + 1
        add(all, id, bytes)
        if not not_after(id, safe) then add(lost, id, bytes) end
      end
    end
    if count > 0 then redis.call('XTRIM', journal, 'MINID', rows[count + 1][1]) end
    going = going and #rows == 101
  end
  if all.n > 0 then
    redis.call('DECRBY', P .. 'journal:bytes', all.bytes)
    redis.call('DECRBY', P .. 'journal:held', all.n - lost.n)
    if lost.n > 0 then redis.call('SET', P .. 'journal:archived', lost.last) end
  end
  return all, lost
end

local function add_entry(...)
  redis.call('XADD', P .. 'journal', '*', ...)
  return redis.call('INCRBY', P .. 'journal:bytes', weight({...}))
end

-- Write an entry. Past `limit` bytes the oldest part goes, whoever still wants it: runs never wait for the journal.
local function note(limit, text, ...)
  limit = tonumber(limit)
  if add_entry('j', text, ...) <= limit then return end
  local low = limit - math.max(1024, math.floor(limit / 64))
  local _, lost = shorten(100000, function(_, bytes) return bytes > low end)
  if lost.n == 0 then return end
  local from, to = place(lost.first), place(lost.last)
  add_entry('j', cjson.encode({n = 'gap', z = 'dropped', y = 'the journal was full and nobody archived it',
    d = {entries = lost.n, bytes = lost.bytes, first = lost.first, last = lost.last, since = from / 1000, ['until'] = to / 1000}}))
  alarm('journal full', lost.n .. ' journal entries were dropped: nobody archived them before the journal reached '
    .. limit .. ' bytes', 'see that a worker runs and that its database answers or data/journal can be written; or raise [journal] hard_bytes')
end

-- How many dead letters need the effects of a run: they are kept as long as one does, and a week longer.
local function ledger_of(json)
  local ok, found = pcall(cjson.decode, json)
  return ok and (string.match(found.retry_of or '', '^(.*)/') or found.run_id) or ''
end

local function needed(ledger, by)
  if redis.call('HINCRBY', P .. 'ledgers', ledger, by) > 0 then return redis.call('PERSIST', P .. 'fx:' .. ledger) end
  redis.call('HDEL', P .. 'ledgers', ledger)
  redis.call('PEXPIRE', P .. 'fx:' .. ledger, WEEK)
end

local function drop_letter(member)
  local text = redis.call('HGET', P .. 'dl', member)
  redis.call('HDEL', P .. 'dl', member)
  redis.call('ZREM', P .. 'dead', member)
  if text then needed(ledger_of(text), -1) end
end

-- Keep a dead letter; past the bound the oldest one goes, and is counted.
local function letter(member, text)
  if redis.call('HSET', P .. 'dl', member, text) == 1 then needed(ledger_of(text), 1) end
  redis.call('ZADD', P .. 'dead', clock(), member)
  count('dead')
  while redis.call('ZCARD', P .. 'dead') > MAX_LETTERS do
    drop_letter(redis.call('ZRANGE', P .. 'dead', 0, 0)[1])
    count('dead dropped')
  end
end

-- Write a run's first entry after its start: it carries the Box the run began with, which until then is in `b:` only.
local function note_first(id, limit, text, ...)
  local wire = redis.call('GET', boxkey(id))
  if not wire or wire == '' then return note(limit, text, ...) end
  return note(limit, text, 'b', wire, ...)
end

-- Push the message of the run's current step: a Celery envelope whose arguments are (run, step, sequence) only.
local function push(id)
  local f = redis.call('HMGET', runkey(id), 'h', 'l', 'x', 'm', 'p', 'D')
  local handler, queue, step, hard, priority = f[1], f[2] or QUEUE, f[3] or '0', f[4], tonumber(f[5]) or NORMAL
  local seq = redis.call('INCR', P .. 'seq')
  local list = listname(queue, priority)
  local name = id .. '.' .. step .. '.' .. seq
  local alone = tonumber(f[6] or 0) >= ALONE_AFTER
  local limit = hard and hard ~= '' and '"timelimit":[' .. (hard + (alone and ALONE_START or 0)) / 1000 .. ',null],' or ''
  if alone then limit = limit .. '"alone":true,' end
  redis.call('LPUSH', list,
    '{"body":"[[\\"' .. id .. '\\",' .. step .. ',' .. seq .. '],{},{}]","content-encoding":"utf-8","content-type":"application/json",'
    .. '"headers":{"task":"lumia.step","id":"' .. name .. '","shadow":' .. cjson.encode(handler) .. ',' .. limit
    .. '"argsrepr":"' .. "('" .. id .. "', " .. step .. ')"},"properties":{"delivery_info":{"exchange":"","routing_key":'
    .. cjson.encode(queue) .. '},"priority":' .. math.max(0, priority) .. ',"delivery_tag":"' .. seq .. '"}}')
  redis.call('ZADD', P .. 'queued:' .. list, seq, name)
  redis.call('HSET', runkey(id), 's', 'q', 'q', seq, 'Q', clock())
end

-- Children inside a lane run one at a time, in the order they were started: the next one may be pushed.
local function step_aside(id, lane)
  local active = P .. 'ia:' .. lane
  if redis.call('GET', active) ~= id then return end
  redis.call('DEL', active)
  while true do
    local sibling = redis.call('LPOP', P .. 'iq:' .. lane)
    if not sibling then return end
    if redis.call('HGET', runkey(sibling), 's') == 'w' then return enter(sibling) end
  end
end

-- Note when a run is due (ms). Of those due at the same moment the first one goes first: each gets a fraction of its own.
local function put_off(id, due)
  local last = redis.call('ZREVRANGEBYSCORE', P .. 'delayed', '(' .. due + 1, due, 'WITHSCORES', 'LIMIT', 0, 1)
  redis.call('ZADD', P .. 'delayed', last[2] and last[2] + 1 / 4096 or due, id)
end

local function postpone(id, delay)
  redis.call('HSET', runkey(id), 's', 'd')
  put_off(id, clock() + delay)
end

-- Wait: at the end of a list, or, for a run that had its turn before (`L` is r or I), in front of all that had not.
local function line_up(list, id, returning)
  redis.call('HSET', runkey(id), 's', 'w')
  local at, other = 0, returning and redis.call('LINDEX', list, 0)
  while other do
    local place = redis.call('HGET', runkey(other), 'L')
    if place ~= 'r' and place ~= 'I' then return redis.call('LINSERT', list, 'BEFORE', other, id) end
    at = at + 1
    other = redis.call('LINDEX', list, at)
  end
  redis.call('RPUSH', list, id)
end

local function turn(id, lo)
  if lo then return lanes().turn(id, cjson.decode(lo)) end
  push(id)
end

local function hold(id, key)
  if redis.call('HSETNX', P .. 'lanes', key, id .. ' ' .. clock()) == 0 then return false end
  redis.call('HSET', runkey(id), 'L', 'h')
  return true
end

-- Enter the lane (or go on, when the run holds it, has its turn inside it, or has none).
enter = function(id)
  local f = redis.call('HMGET', runkey(id), 'k', 'L', 'lo')
  local key, place, lo = f[1], f[2], f[3]
  if not key or place == 'h' then return turn(id, lo) end
  if place == 'i' or place == 'I' then
    local active = P .. 'ia:' .. key
    if redis.call('GET', active) == id or redis.call('SET', active, id, 'NX') then
      if place == 'I' then redis.call('HSET', runkey(id), 'L', 'i') end
      return turn(id, lo)
    end
    return line_up(P .. 'iq:' .. key, id, place == 'I')
  end
  if hold(id, key) then return turn(id, lo) end
  if lo and not place then
    lo = cjson.decode(lo)
    if lo.cap and not lanes().has_room(id, key, lo) then return end
  end
  line_up(P .. 'lane:' .. key, id, place == 'r')
end

-- The lane's next one has its turn; what has waited too long is dropped, a bounded number at once (the rest when claimed).
release = function(key)
  redis.call('HDEL', P .. 'lanes', key)
  count('lane served')
  for dropped = 0, MAX_STALE do
    local follower = redis.call('LINDEX', P .. 'lane:' .. key, 0)
    if not follower then return end
    local lo = redis.call('HGET', runkey(follower), 'lo')
    lo = lo and cjson.decode(lo)
    if not lo or dropped == MAX_STALE or not lanes().drop_stale(follower, lo) then
      redis.call('LPOP', P .. 'lane:' .. key)
      if lo then lanes().close(follower, lo) end
      hold(follower, key)
      return push(follower)
    end
  end
end

local function move_due()
  local due = redis.call('ZRANGEBYSCORE', P .. 'delayed', '-inf', '(' .. clock() + 1, 'LIMIT', 0, 100)
  for _, id in ipairs(due) do
    redis.call('ZREM', P .. 'delayed', id)
    if redis.call('HGET', runkey(id), 's') == 'd' then enter(id) end
  end
end

-- A plan is kept as long as a run in flight needs it, be it for months, and a week longer.
local function hold_plan(digest, text)
  if text then redis.call('SET', P .. 'plan:' .. digest, text, 'NX') end
  if redis.call('HINCRBY', P .. 'plans', digest, 1) == 1 then redis.call('PERSIST', P .. 'plan:' .. digest) end
end

local function let_plan_go(digest)
  if redis.call('HINCRBY', P .. 'plans', digest, -1) > 0 then return end
  redis.call('HDEL', P .. 'plans', digest)
  redis.call('PEXPIRE', P .. 'plan:' .. digest, WEEK)
end

-- A run's own steps are over: its sibling may run; when its children are over too, let go of the lane, tell who waits,
-- and go on to the parent. `g` counts the children that still run; it falls below 0 when the run itself has ended, too.
local function leave(id, keep)
  redis.call('ZREM', P .. 'claims', id)
  local f = redis.call('HMGET', runkey(id), 'k', 'L', 'u', 'd', 'E')
  if f[2] == 'i' then step_aside(id, f[1]) end
  while redis.call('HINCRBY', runkey(id), 'g', -1) < 0 do
    redis.call('HSET', runkey(id), 's', 'f', 'e', clock())
    if f[2] == 'h' then release(f[1]) end
    redis.call('PUBLISH', P .. 'done', id)
    redis.call('PEXPIRE', runkey(id), keep)
    redis.call('PEXPIRE', boxkey(id), keep)
    -- A dead letter, or a retry that is a run of its own and may come later, needs what this one has done.
    if redis.call('HEXISTS', P .. 'ledgers', id) == 0 then redis.call('PEXPIRE', P .. 'fx:' .. id, f[5] and WEEK or keep) end
    let_plan_go(f[4])
    id = f[3]
    if not id then return end
    f = redis.call('HMGET', runkey(id), 'k', 'L', 'u', 'd', 'E')
  end
end

local function finish(id, outcome, reason, keep)
  redis.call('HSET', runkey(id), 's', 'e', 'z', outcome, 'y', reason, 'e', clock())
  leave(id, keep)
end

-- End a run that no worker can end with a commit of its own.
bury = function(id, outcome, reason, keep, limit, detail)
  local f = redis.call('HMGET', runkey(id), 'i', 'o', 'k', 'x', 'h', 'a', 'S', 'n', 'p', 'R', 'A', 'F', 'H')
  local root, step, attempts = f[2] or id, tonumber(f[4]) or 0, tonumber(f[6]) or 0
  local write = f[7] and note or function(...) return note_first(id, ...) end
  local entry = {r = id, o = f[2] or nil, i = f[1], k = f[3] or nil, y = reason}
  if outcome == 'failed' then
    local origin, index = string.match(f[10] or '', '^(.*)/(%d+)$')
    letter(id .. '.' .. step, cjson.encode({run_id = id, step = step, handler = f[5] or '', id = f[1], key = f[3] or '',
      error = detail or reason, attempts = attempts, box = redis.call('GET', boxkey(id)) or '', time = clock() / 1000, root_id = root,
      flow = f[8] or 'pipe', priority = tonumber(f[9]) or NORMAL, arc = f[11] == '1', hold = f[13] == '1',
      retry_of = origin and origin .. '/' .. string.format('%d', index + step) or '', history = f[12] and cjson.decode(f[12]) or nil}))
    entry.n, entry.x, entry.h, entry.a = 'dead', step, f[5] or nil, attempts
    write(limit, cjson.encode(entry))
    write = note
  end
  entry.n, entry.z, entry.x, entry.h, entry.a = 'end', outcome, nil, nil, nil
  write(limit, cjson.encode(entry))
  finish(id, outcome, reason, keep)
end

-- The answer to a claim: everything the executor needs. A committed, foreign or younger message gets nothing.
local function taken(id)
  local f = redis.call('HMGET', runkey(id), 'x', 't', 'a', 'n', 'i', 'k', 'o', 'c', 'p', 'd', 'R', 'A', 'B', 'O', 'D', 'F', 'H',
    'Q', 'ov', 'W')
  return {'claimed', id, f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12], f[13], f[14], f[15], f[16],
    f[17], f[18], f[19], f[20], redis.call('GET', boxkey(id))}
end

local function take(id, step, seq, worker)
  local key = runkey(id)
  local f = redis.call('HMGET', key, 's', 'x', 'q', 'to', 'l', 'p', 'w', 'Q', 'lo', 'P', 'D')
  if f[1] == 'c' and (f[2] or '0') == step and f[3] == seq and f[7] == worker then return taken(id) end
  if f[1] ~= 'q' or (f[2] or '0') ~= step or f[3] ~= seq then
    count('dropped')
    return {'dropped'}
  end
  redis.call('ZREM', P .. 'queued:' .. listname(f[5] or QUEUE, tonumber(f[6]) or NORMAL), id .. '.' .. step .. '.' .. seq)
  if f[10] then
    redis.call('HSET', key, 'p', f[10])
    redis.call('HDEL', key, 'P')
  end
  if f[9] then
    local lo = cjson.decode(f[9])
    if lanes().drop_stale(id, lo) then return {'dropped'} end
    local waited = lanes().outstayed(id, lo)
    if waited then redis.call('HSET', key, 'ov', waited - lo.ma) end
  end
  redis.call('HINCRBY', key, 'a', 1)
  redis.call('HSET', key, 's', 'c', 'w', worker, 't', redis.call('INCR', P .. 'token'), 'Q', math.max(0, clock() - f[8]))
  local more = tonumber(f[11] or 0) >= ALONE_AFTER and ALONE_START or 0
  redis.call('ZADD', P .. 'claims', clock() + f[4] + more, id)
  -- Who claims is alive: a process that stood still may get here before its heartbeat does.
  redis.call('ZADD', P .. 'workers', clock() / 1000, worker)
  return taken(id)
end

-- What a message of ours carries, nil when its step has a hard limit or a process of its own; fails for anyone else's.
local function arguments(message)
  local env = cjson.decode(message)
  assert(env.headers.task == 'lumia.step')
  return not env.headers.timelimit and not env.headers.alone and cjson.decode(env.body)[1]
end

-- Claim the oldest waiting message of these lists that is ours, cheap to run here and still wanted.
local function take_next(queue, worker)
  for _, priority in ipairs(LISTS) do
    local list = listname(queue, priority)
    for _ = 1, 4 do
      local message = redis.call('LINDEX', list, -1)
      if not message then break end
      local ok, args = pcall(arguments, message)
      if not ok or not args then return {'none'} end
      redis.call('RPOP', list)
      local answer = take(args[1], tostring(args[2]), string.format('%.0f', args[3]), worker)
      if answer[1] == 'claimed' then return answer end
    end
  end
  return {'none'}
end

-- Begin one run described by `r` (see tasks/wire.py) whose Box wire text is `wire`. Its record holds only what differs
-- from the usual, so that a waiting run stays small.
-- cancelled: why, when it is a part of a run that was.
local function begin(r, wire, limit, keep, cancelled)
  local id = r.r
  if r.lo and r.lo.co then wire = '{"c":[' .. wire .. ']}' end
  local record = {'b', clock(), 's', 'n', 'd', r.d}
  for _, name in ipairs({'i', 'n', 'k', 'o', 'c', 'u', 'p', 'a', 'h', 'l', 'm', 'to', 'R', 'A', 'L', 'F', 'H', 'W'}) do
    local value = r[name]
    if value then
      record[#record + 1] = name
      record[#record + 1] = value
    end
  end
  redis.call('HSET', runkey(id), unpack(record))
  hold_plan(r.d, r.pt)
  redis.call('SET', boxkey(id), wire)
  if r.cr and redis.call('EXISTS', runkey(r.cr)) == 1 then
    local number = redis.call('HINCRBY', runkey(r.cr), 'K', 1)
    redis.call('HSET', runkey(r.cr), 'K' .. number, id)
    if r.u then redis.call('HINCRBY', runkey(r.cr), 'g', 1) end
  end
  local home = r.R and not r.u and string.match(r.R, '^(.*)/')
  if home and redis.call('EXISTS', runkey(home)) == 1 then redis.call('HSET', runkey(home), 'E', '1') end
  note(limit, r.j)
  if r.l then redis.call('SADD', P .. 'queues', r.l) end
  if not r.h then
    note(limit, r.je, 'b', wire)
    return finish(id, 'done', 'no handler', keep)
  end
  if r.A then
    redis.call('HSET', runkey(id), 's', 'c', 'w', r.w, 't', redis.call('INCR', P .. 'token'), 'a', 1)
    redis.call('ZADD', P .. 'claims', clock() + r.to, id)
    return
  end
  if cancelled and r.u then return bury(id, 'cancelled', cancelled, keep, limit) end
  if r.lo or r.rt then return lanes().admit(r, limit, keep) end
  if r.dl then return postpone(id, r.dl) end
  enter(id)
end

-- Whether a request comes without its plan although that is not here (any more): Redis may have lost its last second.
-- One that nobody handles needs none.
local function planless(r)
  return r.h and not r.pt and redis.call('EXISTS', P .. 'plan:' .. r.d) == 0
end

-- The run that serves this request already, or nil; a fresh dedup text is remembered for the window.
local function known(r, window)
  if redis.call('EXISTS', runkey(r.r)) == 1 then return r.r end
  local host = r.lo and r.lo.co and redis.call('GET', P .. 'jn:' .. r.r)
  if host then return host, true end
  if not r.dd then return nil end
  local name = P .. 'dd:' .. r.dd
  if redis.call('SET', name, r.r, 'NX', 'PX', window) then return nil end
  return redis.call('GET', name)
end

-- The inbox holds starts that were accepted and are still to be planned: `inbox` their runs in order, `kept` their text.
-- Keep one, unless it is there or was started already; returns the run that serves it.
local function keep_start(id, dedup, text, window)
  if dedup ~= '' then
    local name = P .. 'dd:' .. dedup
    if not redis.call('SET', name, id, 'NX', 'PX', window) then return redis.call('GET', name) end
  elseif redis.call('HEXISTS', P .. 'kept', id) == 1 or redis.call('EXISTS', runkey(id)) == 1 then
    return id
  end
  redis.call('HSET', P .. 'kept', id, text)
  if redis.call('RPUSH', P .. 'inbox', id) == 1 then redis.call('PUBLISH', P .. 'mail', '') end
  return id
end

-- Take one out of the inbox; it is nearly always the first.
local function let_start_go(id)
  if redis.call('HDEL', P .. 'kept', id) == 0 then return false end
  redis.call('LREM', P .. 'inbox', 1, id)
  return true
end

-- Like `known`, without remembering anything: for what has to be looked at before the first write.
local function served(r)
  return redis.call('EXISTS', runkey(r.r)) == 1 or redis.call('EXISTS', P .. 'jn:' .. r.r) == 1
    or (r.dd and redis.call('EXISTS', P .. 'dd:' .. r.dd) == 1)
end

-- What the lanes and rates of these requests {r, wire, …} refuse, nil when all may come. What is due goes first, so that
-- nothing overtakes it. whole: where the first one is a duplicate, none of them is begun.
local function refused_by_lanes(requests, whole)
  local special = false
  for i = 1, #requests, 2 do special = special or requests[i].lo or requests[i].rt end
  if not special or (whole and served(requests[1])) then return nil end
  move_due()
  local asked = {}
  for i = 1, #requests, 2 do
    if not served(requests[i]) then
      asked[#asked + 1] = requests[i]
      asked[#asked + 1] = requests[i + 1]
    end
  end
  return lanes().refusal(asked)
end

-- Begin a run, or join the one whose burst waits for it.
local function accept(r, wire, head, cancelled)
  local host = r.lo and lanes().join(r, wire, head.limit, head.window)
  if not host then begin(r, wire, head.limit, head.keep, cancelled) end
  return host
end

-- Scripts don't roll back, so what can fail is looked for before the first write, as if the writes
-- before it in the same list had been made.
local NEEDS = {incr = 'string', append = 'list', put = 'hash', add = 'hash'}
local MAX_COUNT = 9.2e18

-- The number a counter holds at this point of the list; texts: what was written before, '' for a plain value.
local function held(name, seen, op)
  if seen.texts[op.f] or seen.anew or seen.kind == 'none' then return seen.texts[op.f] or '0' end
  if op.o == 'incr' then return redis.call('GET', name) or '0' end
  return redis.call('HGET', name, op.f) or '0'
end

local function refuses(ops)
  local ahead = {}
  for _, op in ipairs(ops) do
    local name = P .. 's:' .. op.k
    local seen = ahead[op.k] or {kind = redis.call('TYPE', name).ok, texts = {}}
    ahead[op.k] = seen
    if NEEDS[op.o] and seen.kind ~= 'none' and seen.kind ~= NEEDS[op.o] then return {'refused', op.k, seen.kind} end
    if op.o == 'incr' or op.o == 'add' then
      local text = held(name, seen, op)
      local sum = string.match(text, '^%-?%d+$') and tonumber(text) + op.v
      if not sum or math.abs(sum) > MAX_COUNT then return {'refused', op.k, sum and 'full counter' or 'no counter'} end
      seen.texts[op.f] = string.format('%.0f', sum)
    elseif op.o == 'put' then seen.texts[op.f] = op.v
    elseif op.o ~= 'append' then
      seen.anew, seen.texts = true, {[''] = op.o == 'set' and op.v or nil}
    end
    seen.kind = NEEDS[op.o] or (op.o == 'delete' and 'none') or 'string'
  end
end

local function apply(ops)
  for _, op in ipairs(ops) do
    local name = P .. 's:' .. op.k
    local fresh = (op.o ~= 'incr' and op.o ~= 'add') or redis.call('EXISTS', name) == 0
    if op.o == 'set' then redis.call('SET', name, op.v)
    elseif op.o == 'delete' then redis.call('DEL', name)
    elseif op.o == 'incr' then redis.call('INCRBY', name, op.v)
    elseif op.o == 'add' then redis.call('HINCRBY', name, op.f, op.v)
    elseif op.o == 'append' then
      redis.call('RPUSH', name, op.v)
      redis.call('LTRIM', name, -op.n, -1)
    else redis.call('HSET', name, op.f, op.v) end
    if op.t > 0 and fresh then redis.call('PEXPIRE', name, op.t) end
  end
end
