-- Lends up to `count` tasks of the given queues.
-- ARGV: 'first' (the first queue with work) or 'any' (highest priority, then the oldest head), queues, count,
--       discard limit, now ms, stamp, lease ms, lease until ms, lease until text, worker id, subject,
--       lease key prefix, 'store' or 'caller', then the name of each queue
local mode, queues, count, discards = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now, until_ms = tonumber(ARGV[5]), tonumber(ARGV[8])

local open = {}
for n = 1, queues do
  local q = queue(n)
  q.lengths = {}
  for p = 0, 9 do q.lengths[p] = redis.call('LLEN', q.pending[p]) end
  if not typed(q.inprog, 'set') then return { 'WRONGTYPE', q.inprog } end
  if not typed(q.leases, 'zset') then return { 'WRONGTYPE', q.leases } end
  if not typed(q.delayed, 'zset') then return { 'WRONGTYPE', q.delayed } end
  if redis.call('SISMEMBER', PAUSED, ARGV[13 + n]) == 0 then open[#open + 1] = q end
end

-- Finds the head of a queue and drops ids from in front of it that are not pending any more.
local function look(q)
  q.head = nil
  for p = 9, 0, -1 do
    while q.lengths[p] > 0 do
      local id = redis.call('LINDEX', q.pending[p], -1)
      if not id then q.lengths[p] = 0 break end
      local h = find(id)
      if h and h.status == 'PENDING' then
        q.head = { id = id, h = h, p = p, created = created(h) }
        return
      end
      if discards == 0 then return end
      discards = discards - 1
      redis.call('RPOP', q.pending[p])
      q.lengths[p] = q.lengths[p] - 1
    end
  end
end

local function best()
  local chosen
  for _, q in ipairs(open) do
    if not q.seen then look(q) q.seen = true end
    if q.head then
      if mode == 'first' then return q end
      local c = chosen and chosen.head
      if not c or q.head.p > c.p or (q.head.p == c.p and q.head.created < c.created) then chosen = q end
    end
  end
  return chosen
end

local function lend(q)
  local id, h = q.head.id, q.head.h
  redis.call('RPOP', q.pending[q.head.p])
  q.lengths[q.head.p] = q.lengths[q.head.p] - 1
  if h.lastKnownLocation == 'DELAYED_ZSET' then redis.call('ZREM', q.delayed, id) end
  redis.call('SADD', q.inprog, id)
  redis.call('ZADD', q.leases, int(until_ms), id)
  if ARGV[13] == 'caller' then
    redis.call('SET', ARGV[12] .. id, ARGV[10])
  else
    redis.call('SET', ARGV[12] .. id, ARGV[10], 'PX', ARGV[7])
  end
  -- It was changed last when it became ready.
  local ready_at = int(h.updatedAtMs)
  place(h, 'IN_PROGRESS', 'INPROG_SET')
  touch(h, now, ARGV[6])
  h.attempts = h.attempts + 1
  h.workerId, h.ownerSub, h.leaseUntil = ARGV[10], ARGV[11], ARGV[9]
  h.leaseUntilMs, h.claimedAtMs = until_ms, now
  q.seen = false
  return { keep(id, h), ready_at }
end

local lent = {}
while #lent < count do
  local q = best()
  if not q then break end
  lent[#lent + 1] = lend(q)
end
return { 'OK', lent }
