-- What starts with options of the lane or a rate need beside lib.lua (see docs/lanes.md and `lane` in tasks/wire.py).
-- It is built when the first of them is met, so that all others don't pay for it. `lo` is a run's field of that name:
-- {cap, of, ma, st, co, mw, bf, mx, dl, sl, keep, limit}; times in ms.
local made

local function make_lanes()
  local lane = {}

  -- Let nothing join this run's burst any more.
  function lane.close(id, lo)
    if lo.co and redis.call('HGET', P .. 'bursts', lo.bf) == id then redis.call('HDEL', P .. 'bursts', lo.bf) end
  end

  -- Take a run that nobody executes out of whatever it waits in.
  function lane.withdraw(id)
    local f = redis.call('HMGET', runkey(id), 's', 'k', 'L', 'l', 'p', 'x', 'q', 'lo')
    if f[1] == 'w' then
      local inside = f[3] == 'i' or f[3] == 'I'
      redis.call('LREM', P .. (inside and 'iq:' or 'lane:') .. f[2], 1, id)
    elseif f[1] == 'q' then
      redis.call('ZREM', P .. 'queued:' .. listname(f[4] or QUEUE, tonumber(f[5]) or NORMAL), id .. '.' .. (f[6] or 0) .. '.' .. f[7])
    elseif f[1] == 'd' then
      redis.call('ZREM', P .. 'delayed', id)
    end
    if f[8] then lane.close(id, cjson.decode(f[8])) end
  end

  -- How long a run has waited, when that is longer than it may before its first try, else nil.
  function lane.outstayed(id, lo)
    if not lo.ma then return nil end
    local f = redis.call('HMGET', runkey(id), 'b', 'a', 'S')
    if f[3] or (tonumber(f[2]) or 0) > 0 then return nil end
    local waited = clock() - f[1] - (lo.dl or 0)
    return waited > lo.ma and waited or nil
  end

  local function seconds(ms) return string.format('%.14g', math.floor(ms / 100 + 0.5) / 10) end

  -- End a run that has waited too long, if that is its policy; tells whether it was.
  function lane.drop_stale(id, lo)
    local waited = lo.st ~= 'run' and lane.outstayed(id, lo)
    if not waited then return false end
    count('lane stale')
    lane.withdraw(id)
    bury(id, 'stopped', 'stale: waited ' .. seconds(waited) .. ' s, max_age ' .. string.format('%.14g', lo.ma / 1000) .. ' s',
      lo.keep, lo.limit)
    return true
  end

  -- It is the run's turn.
  function lane.turn(id, lo)
    lane.close(id, lo)
    if not lane.drop_stale(id, lo) then push(id) end
  end

  local function drop(id, key, lo, more)
    count('lane dropped')
    lane.withdraw(id)
    bury(id, 'stopped', 'dropped: lane ' .. key .. ' is full (cap ' .. lo.cap .. ')' .. more, lo.keep, lo.limit)
  end

  -- Whether a run may wait in its lane; ends the one that is too many, which may be another.
  function lane.has_room(id, key, lo)
    local list, at = P .. 'lane:' .. key, 0
    local waiting = redis.call('LLEN', list)
    while lo.of == 'drop_oldest' and lo.cap > 0 and waiting >= lo.cap do
      local oldest = redis.call('LINDEX', list, at)
      if not oldest then break end
      if redis.call('HGET', runkey(oldest), 'L') == 'r' then
        at = at + 1
      else
        drop(oldest, key, lo, ', a newer run took its place')
        waiting = waiting - 1
      end
    end
    if waiting < lo.cap then return true end
    drop(id, key, lo, '')
    return false
  end

  -- A run whose retry lets go: others go ahead, unless parts of its tree still run.
  function lane.let_go(id)
    local f = redis.call('HMGET', runkey(id), 'k', 'L', 'g')
    if f[2] == 'i' then
      redis.call('HSET', runkey(id), 'L', 'I')
      step_aside(id, f[1])
    elseif f[2] == 'h' and (tonumber(f[3]) or 0) == 0 then
      redis.call('HSET', runkey(id), 'L', 'r')
      release(f[1])
    end
  end

  -- GCRA: how long one more has to wait, and the theoretical arrival time after it. rt: {n, iv, sl, ov, y}.
  local function after(tat, rt, reserve)
    tat = math.max(tat, clock())
    local wait = tat - rt.sl - clock()
    if wait < 0.001 then wait = 0 end
    if reserve or wait == 0 then tat = tat + rt.iv end
    return wait, tat
  end

  local function arrival(name) return tonumber(redis.call('GET', P .. 'rate:' .. name) or 0) end

  -- Count one more, if it needn't wait or its later place is to be reserved; returns the ms to wait.
  function lane.counted(rt, reserve)
    local wait, tat = after(arrival(rt.n), rt, reserve)
    if wait == 0 or reserve then
      redis.call('SET', P .. 'rate:' .. rt.n, string.format('%.3f', tat), 'PX', math.ceil(tat - clock()) + 1)
    end
    return wait
  end

  -- The run that this message may join: one that collects, or that waits at its lane's end, nobody behind it.
  function lane.burst(r, wire)
    local host = r.lo and r.lo.co and redis.call('HGET', P .. 'bursts', r.lo.bf)
    if not host then return nil end
    local f = redis.call('HMGET', runkey(host), 's', 'b', 'lo')
    if redis.call('STRLEN', boxkey(host)) + #wire + 1 > r.lo.mx then return nil end
    local lo = cjson.decode(f[3])
    if f[1] == 'd' and clock() < f[2] + lo.mw then return host, lo, f[2] + lo.mw end
    if f[1] == 'w' and redis.call('LINDEX', P .. 'lane:' .. r.k, -1) == host then return host, lo end
  end

  -- Add a message to the burst that waits for it, if one does; returns its run.
  function lane.join(r, wire, limit, window)
    local host, lo, last = lane.burst(r, wire)
    if not host then return nil end
    redis.call('SETRANGE', boxkey(host), redis.call('STRLEN', boxkey(host)) - 2, ',' .. wire .. ']}')
    if last then put_off(host, math.max(lo.sl or 0, math.min(clock() + r.lo.co, last))) end
    redis.call('SET', P .. 'jn:' .. r.r, host, 'PX', JOINED_MS)
    if r.dd then redis.call('SET', P .. 'dd:' .. r.dd, host, 'PX', window) end
    note(limit, cjson.encode({n = 'join', r = host, i = r.i, k = r.k,
      d = {by = r.r, n = redis.call('HINCRBY', runkey(host), 'J', 1), source = r.c}}))
    count('lane collected')
    return host
  end

  -- What speaks against these requests, {r, wire, …}, before anything is written; nil for nothing.
  function lane.refusal(requests)
    local ahead, rates = {}, {}
    for i = 1, #requests, 2 do
      local r, wire = requests[i], requests[i + 1]
      local lo, rt, key = r.lo, r.rt, r.k
      local joins = lane.burst(r, wire)
      if key and not r.L and not r.dl and not joins then
        local taken = ahead[key] or redis.call('HEXISTS', P .. 'lanes', key) == 1
        local waiting = redis.call('LLEN', P .. 'lane:' .. key) + (ahead[key] or 0)
        if taken and lo and lo.cap and lo.of == 'reject' and waiting >= lo.cap then
          count('lane rejected')
          return {'full', key, tostring(waiting), tostring(lo.cap)}
        end
        ahead[key] = (ahead[key] or 0) + (taken and 1 or 0)
      end
      if rt and not joins then
        local wait, tat = after(rates[rt.n] or arrival(rt.n), rt, true)
        rates[rt.n] = tat
        if wait > 0 and rt.ov == 'reject' then
          count('lane rejected')
          return {'limited', rt.n, rt.y, string.format('%.3f', wait)}
        end
      end
    end
  end

  -- Let a fresh run wait for what it asked for: its rate, the end of its burst; then for its lane.
  function lane.admit(r, limit, keep)
    local id, lo, wait = r.r, r.lo, 0
    if r.rt then
      wait = lane.counted(r.rt, r.rt.ov == 'delay')
      if wait > 0 and r.rt.ov ~= 'delay' then
        count('lane dropped')
        return bury(id, 'stopped', 'dropped: rate limit ' .. r.rt.n .. ', ' .. r.rt.y, keep, limit)
      end
    end
    local delay = math.max(wait, r.dl or 0)
    if lo then
      if lo.co then
        lo.sl = wait > 0 and math.ceil(clock() + wait) or nil
        delay = math.max(delay, lo.co)
        redis.call('HSET', P .. 'bursts', lo.bf, id)
      end
      lo.dl, lo.keep, lo.limit = r.dl, keep, limit
      redis.call('HSET', runkey(id), 'lo', cjson.encode(lo))
    end
    if delay > 0 then return postpone(id, delay) end
    enter(id)
  end

  return lane
end

lanes = function()
  made = made or make_lanes()
  return made
end
