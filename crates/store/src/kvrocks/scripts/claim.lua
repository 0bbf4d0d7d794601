-- Lends tasks of the given queues to those who want them, in their order. After flow.lua.
-- ARGV[13..]: 'first' (the first queue with work) or 'any' (highest priority, then the oldest head), queues, how many
--       of them act on what is due first, discard limit, latest instant of the server in ms or '', names of the queues
--       among the paused; then of everyone who claims: count, lease ms, until ms, until text, worker id, subject, '1' if
--       the queue may say how long the lease is
-- Replies with what acted, what was lent, whether stale ids are left, and for queues that only time holds back their
-- places and instants.
local at = DUE_ARGS + 1
local mode, queues, timed = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
local discards, latest = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
at = at + 5
-- Whoever asked has given up: what a server finds when it wakes up lends nothing to nobody.
if latest then
  local time = redis.call('TIME')
  if tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) > latest then return { 'LATE' } end
end

local acts, open = {}, {}
for n = 1, queues do
  local q = queue(n)
  if n <= timed then
    q.bound = tonumber(redis.call('ZSCORE', P .. 'timers', q.name) or '')
    local is_due = q.bound and q.bound <= now
    -- Only an older version leaves something that falls due without a bound.
    if not q.bound then is_due = redis.call('EXISTS', q.leases, q.delayed) > 0 end
    if is_due then
      local acted, wrong = act(q, q.bound, 0)
      if not acted then
        end_flows(open)
        return { 'WRONGTYPE', wrong }
      end
      acts[#acts + 1] = acted
      q.bound = tonumber(redis.call('ZSCORE', P .. 'timers', q.name) or '')
    end
  end
  if redis.call('SISMEMBER', P .. 'paused', ARGV[at]) == 0 then
    q.place = n
    open[#open + 1] = q
    if redis.call('EXISTS', q.base .. ':flow') == 1 then begin_flow(q) end
  end
  at = at + 1
end
local has_acted_freed = has_freed

-- Ends a task at the head that nobody has claimed in time, before its turn among the timers.
local expired = { {}, 0, {}, 1, 0 }
local function has_expired(q, id, h)
  local at = expires_at(h)
  if not at or at > now then return false end
  local told = expire_waiting(by, q, id, h)
  -- One that cannot be ended stays where it is, and nothing behind it is looked at.
  if not told then discards = 0 end
  expired[3][#expired[3] + 1] = told
  return true
end

-- An id that is not pending any more is dropped by whoever pops it.
local function dropped(q, p, count)
  local left = redis.pcall('HINCRBY', q.stale, p, -count)
  if type(left) == 'number' and left <= 0 then redis.call('HDEL', q.stale, p) end
  discards = discards - count
end

-- Drops a run of such ids from the end of a list.
local function drop(q, p)
  local ids = redis.call('LRANGE', q.list .. p, -math.min(16, discards), -1)
  if #ids == 0 then return end
  local texts, run = redis.call('HMGET', TASKS, unpack(ids)), 0
  for n = #ids, 1, -1 do
    local h = parse(texts[n], ids[n])
    if h and h.status == 'PENDING' then break end
    run = run + 1
  end
  if run > 0 then
    redis.call('RPOP', q.list .. p, run)
    dropped(q, p, run)
  end
end

-- Priorities above the lowest are looked at only if one of them has something.
local function highest(q)
  if not q.upper then
    q.upper = {}
    for p = 1, 9 do q.upper[p] = q.list .. p end
  end
  return redis.call('EXISTS', unpack(q.upper)) > 0 and 9 or 0
end

-- Finds the head of a queue, without ids that are not pending.
local function look(q)
  q.head = nil
  for p = highest(q), 0, -1 do
    while true do
      local id = redis.call('LINDEX', q.list .. p, -1)
      if not id then break end
      local h = find(id)
      if h and h.status == 'PENDING' and not has_expired(q, id, h) then
        q.head = { id = id, h = h, p = p, created = created(h) }
        return
      end
      if discards <= 0 then return end
      drop(q, p)
    end
  end
end

-- The same for a queue that something restricts: the lane that comes next, if anything may start.
local function look_flow(q)
  q.head = nil
  if is_blocked(q) then return end
  look(q)
  local plain, pass = q.head, nil
  plain, pass = plain_turn(q, plain)
  q.head = nil
  while discards > 0 do
    local lane, head = lane_turn(q, pass, plain and plain.h.seq or 0)
    if not lane then
      q.head = plain
      return
    end
    local id = string.sub(head, -36)
    local h = find(id)
    if h and h.status == 'PENDING' and not has_expired(q, id, h) then
      q.head = { id = id, h = h, p = priority(h), created = created(h), lane = lane, entry = head }
      return
    end
    if not h or h.status ~= 'PENDING' then lanes().drop(q, head) end
    discards = discards - 1
  end
end

local function best()
  local chosen
  for _, q in ipairs(open) do
    if not q.seen then
      if q.cache then look_flow(q) else look(q) end
      q.seen = true
    end
    if q.head then
      if mode == 'first' then return q end
      local c = chosen and chosen.head
      if not c or q.head.p > c.p or (q.head.p == c.p and q.head.created < c.created) then chosen = q end
    end
  end
  return chosen
end

local function lend(q, to)
  local id, h, list = q.head.id, q.head.h, q.list .. q.head.p
  local life, until_ms, until_text = tonumber(ARGV[to + 1]), tonumber(ARGV[to + 2]), ARGV[to + 3]
  local longest, expiry = h.maxRunMs or 0, expires_at(h)
  if q.cache then
    local rule = q.f.rule
    if rule.lease and ARGV[to + 6] == '1' then life, until_ms, until_text = rule.lease, now + rule.lease, '' end
    if longest == 0 then longest = rule.run or 0 end
    h.slot = rule.c and 1 or nil
  end
  if longest > 0 and longest < life then life, until_ms, until_text = longest, now + longest, '' end
  local undo = expiry and { 'ZADD', q.leases, int(expiry), id } or { 'ZREM', q.leases, id }
  local steps = {
    { { 'RPOP', list }, { 'RPUSH', list, id } },
    { { 'SADD', q.inprog, id }, { 'SREM', q.inprog, id } },
    { { 'ZADD', q.leases, int(until_ms), id }, undo, always = true },
  }
  if h.lastKnownLocation == 'DELAYED_ZSET' then steps[#steps + 1] = { { 'ZREM', q.delayed, id } } end
  if not q.bound or until_ms < q.bound then
    steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(until_ms), q.name } }
    q.bound = until_ms
  end
  release(steps, id, h, 'started')
  if q.head.lane then start_lane(steps, q) end
  local refusal = attempt(steps)
  if refusal then return nil, refusal end
  if q.cache then lanes().started(q, not q.head.lane, q.limited_at) end
  if ARGV[5] == 'caller' then
    redis.call('SET', P .. 'lease:' .. id, ARGV[to + 4])
  else
    redis.call('SET', P .. 'lease:' .. id, ARGV[to + 4], 'PX', int(life))
  end
  -- It was changed last when it became ready.
  local ready_at = int(h.updatedAtMs)
  place(h, 'IN_PROGRESS', 'INPROG_SET')
  touch(h, now, stamp)
  h.attempts = h.attempts + 1
  h.workerId, h.ownerSub, h.leaseUntil = ARGV[to + 4], ARGV[to + 5], until_text
  h.leaseUntilMs, h.claimedAtMs = until_ms, now
  q.seen = false
  local checkpoint = has_note(h, CHECKPOINT) and redis.call('HGET', P .. 'checkpoints', id)
  return { keep(id, h), ready_at, checkpoint or '' }
end

local lent, is_dry = {}, false
for to = at, #ARGV, 7 do
  local mine = {}
  while not is_dry and #mine < tonumber(ARGV[to]) do
    local q = best()
    if not q then
      is_dry = true
    else
      local task, refusal = lend(q, to)
      if not task and #lent == 0 and #mine == 0 then
        end_flows(open)
        return refusal
      end
      if not task then
        is_dry = true
      else
        mine[#mine + 1] = task
      end
    end
  end
  lent[#lent + 1] = mine
end
if #expired[3] > 0 then acts[#acts + 1] = expired end
local waits = end_flows(open)
has_freed = has_acted_freed
return freed({ 'OK', acts, lent, discards <= 0 and 1 or 0, waits })
