-- What time does to a queue: delays that are over, leases that have ended, deadlines of cancels, tasks that nobody has
-- claimed in time. After stop.lua.
--
-- `timers` holds for each queue a lower bound of the first instant at which something of it falls due. Whoever makes
-- something due earlier lowers it; only here it is set anew.
-- ARGV: now ms, stamp, limit, first sequence number, 'store' or 'caller' (who ends leases), backoff ranges, seed,
--       dead retention score, callbacks '1' or '', callback stamp, delivery id prefix, failed retention score
local DUE_ARGS = 12
local LOOK_AGAIN = 2000
local now, stamp, limit, seq = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local by = endings(now, stamp, 9)

local function typed(key, wanted)
  local found = redis.call('TYPE', key)
  found = found.ok or found
  return found == 'none' or found == wanted
end

-- The first key that is of another type than what follows needs: much is written here, and nothing is undone.
local function misused(q)
  local wanted = {
    { P .. 'tasks:ttl', 'zset' }, { P .. 'results', 'hash' }, { P .. 'history', 'hash' }, { P .. 'outbox', 'hash' },
    { P .. 'outbox:due', 'zset' }, { P .. 'timers', 'zset' }, { q.inprog, 'set' }, { q.leases, 'zset' },
    { q.delayed, 'zset' }, { q.dlq, 'set' },
  }
  for p = 0, 9 do wanted[#wanted + 1] = { q.list .. p, 'list' } end
  for _, pair in ipairs(wanted) do
    if not typed(pair[1], pair[2]) then return pair[1] end
  end
end

local function ready(q)
  local count = 0
  for p = 0, 9 do count = count + redis.call('LLEN', q.list .. p) end
  for _, stale in ipairs(redis.call('HVALS', q.stale)) do count = count - tonumber(stale) end
  return count + lanes().ready(q)
end

-- Makes these ready, in the order of their instants; those of one instant in the order of their creation.
local function promote(q, due, taken)
  local ids, tasks, moved, records, pending = {}, {}, {}, {}, {}
  for n = 1, taken do ids[n] = due[2 * n - 1] end
  in_parts(ids, function(part)
    for i, text in ipairs(redis.call('HMGET', TASKS, unpack(part))) do
      local h = parse(text, part[i])
      tasks[#tasks + 1] = { id = part[i], h = h, at = tonumber(due[2 * #tasks + 2]), number = h and number(h) or 0 }
    end
  end)
  table.sort(tasks, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    if a.number ~= b.number then return a.number < b.number end
    return a.id < b.id
  end)
  for _, task in ipairs(tasks) do
    local id, h = task.id, task.h
    if h and h.status == 'PENDING' then
      touch(h, now, stamp)
      place(h, 'PENDING', 'PENDING_LIST')
      h.seq, seq = seq, seq + 1
      if h.lane then h.seq = lanes().push(q, h.lane, id, priority(h), h.accepted) end
      local head = head_text(h)
      records[#records + 1], records[#records + 2] = id, head .. h.tail
      moved[#moved + 1] = summary(h, head)
      local p = priority(h)
      pending[p] = pending[p] or {}
      if not h.lane then pending[p][#pending[p] + 1] = id end
    end
  end
  in_parts(ids, function(part) redis.call('ZREM', q.delayed, unpack(part)) end)
  in_parts(records, function(part) redis.call('HSET', TASKS, unpack(part)) end)
  for p = 0, 9 do
    in_parts(pending[p] or {}, function(part) redis.call('LPUSH', q.list .. p, unpack(part)) end)
  end
  return moved
end

-- Park and Miller's generator: exact in doubles.
local state = tonumber(ARGV[7])
local function draw()
  state = (state * 16807) % 2147483647
  return state / 2147483647
end

-- When the lease really ends, or nothing if it has ended.
local function lives_until(id, h)
  if ARGV[5] == 'caller' then
    if h.leaseUntilMs and h.leaseUntilMs > now then return h.leaseUntilMs end
    return nil
  end
  local left = redis.call('PTTL', P .. 'lease:' .. id)
  if left > 0 then return now + left end
end

-- Ends a running task that was to stop.
local function stop(q, id, h)
  local told, steps = summary_read(h), {}
  local error = cancel_steps(steps, by, q, id, h, h.cancel.reason)
  if attempt(steps) then return nil end
  redis.call('DEL', P .. 'lease:' .. id)
  keep(id, h)
  return { told, 'CANCELLED', error }
end

-- Ends a lease that has run out. Gives what is told of it.
local function expire(q, id, h)
  if h.cancel then return stop(q, id, h) end
  local used, told, steps = h.attempts - h.refunds, summary_read(h), {}
  free(steps, q, id, h)
  remember(steps, id, h, now, 'lease_expired', 'LEASE_EXPIRED')
  touch(h, now, stamp)
  h.error = 'LEASE_EXPIRED'
  if used >= (h.maxAttempts or 0) then
    call_failure_back(steps, by, id, h, 'LEASE_EXPIRED')
    make_dead(steps, q, id, h, failure_text(by, id, 'LEASE_EXPIRED', 'MAX_ATTEMPTS'), ARGV[8])
  else
    clear_lease(h)
    local delay = delay_of(backoff_of(q, ARGV[6]), used, draw())
    if delay == 0 then
      make_ready(steps, q, id, h, seq)
      seq = seq + 1
    else
      make_delayed(steps, q, id, h, now + delay * 1000)
    end
  end
  if attempt(steps) then return nil end
  redis.call('DEL', P .. 'lease:' .. id)
  keep(id, h)
  return { told, h.lastKnownLocation }
end

-- Acts on a running task whose instant has come.
local function repair_running(q, id, h)
  if h.cancel and h.cancel.by <= now then return stop(q, id, h) end
  local alive = lives_until(id, h)
  if not alive then return expire(q, id, h) end
  if h.cancel and h.cancel.by < alive then alive = h.cancel.by end
  -- A lease that outlives its instant is looked at again soon: a clock of the server that was set back is set right again.
  redis.call('ZADD', q.leases, int(math.min(alive, now + LOOK_AGAIN)), id)
end

local function repair(q, due)
  local ended = {}
  for i = 1, #due, 2 do
    local id = due[i]
    local h = find(id)
    local expiry = h and expires_at(h)
    if h and h.status == 'IN_PROGRESS' then
      ended[#ended + 1] = repair_running(q, id, h)
    elseif expiry and expiry > now then
      redis.call('ZADD', q.leases, int(expiry), id)
    elseif expiry and redis.call('HEXISTS', P .. 'moving', id) == 0 then
      ended[#ended + 1] = expire_waiting(by, q, id, h)
    else
      redis.call('SREM', q.inprog, id)
      redis.call('ZREM', q.leases, id)
      redis.call('DEL', P .. 'lease:' .. id)
    end
  end
  return ended
end

-- Sets the bound anew from the first scores that remain behind the old one. Without any the entry goes.
local function set_bound(q, from)
  local function first(key, low)
    return tonumber(redis.call('ZRANGEBYSCORE', key, low, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
  end
  local delayed, lease = first(q.delayed, from and score(from) or '-inf'), first(q.leases, from and int(from) or '-inf')
  local bound = delayed and math.floor(delayed * 1000)
  if lease and (not bound or lease < bound) then bound = lease end
  if bound then
    redis.call('ZADD', P .. 'timers', int(bound), q.name)
  else
    redis.call('ZREM', P .. 'timers', q.name)
  end
  return bound
end

-- Acts on what is due. `spare`: how many to make ready while more are due than the limit and as many are ready.
-- Gives what was made ready and how many were before, what ended and how many were before, how many were looked at;
-- or nothing and the key that is misused.
local function act(q, bound, spare)
  local from = bound and score(bound) or '-inf'
  local delayed = redis.call('ZRANGEBYSCORE', q.delayed, from, score(now), 'WITHSCORES', 'LIMIT', 0, limit)
  from = bound and int(bound) or '-inf'
  local leases = redis.call('ZRANGEBYSCORE', q.leases, from, int(now), 'WITHSCORES', 'LIMIT', 0, limit)
  local found, ended = #delayed / 2, #leases / 2
  local acted = { {}, 0, {}, 0, math.max(found, ended) }
  if found + ended > 0 then
    local wrong = misused(q)
    if wrong then return nil, wrong end
  end
  if found > 0 then
    acted[2] = ready(q)
    local taken = found
    if found == limit and acted[2] >= limit then taken = spare end
    if taken > 0 then acted[1] = promote(q, delayed, taken) end
  end
  if ended > 0 then
    acted[4] = ready(q)
    acted[3] = repair(q, leases)
  end
  set_bound(q, bound)
  return acted
end
