-- Finds a place for an id in the set of running tasks that has no lease entry or no lease key. After turn.lua.
-- ARGV: id, now ms, stamp, sequence number
local q = queue(1)
local id, now, steps = ARGV[1], tonumber(ARGV[2]), {}
if redis.call('SISMEMBER', q.inprog, id) == 0 then return { 'KEPT' } end
local h = find(id)
if h and h.status == 'IN_PROGRESS' then
  local left = redis.call('PTTL', P .. 'lease:' .. id)
  if left < 0 then left = 0 end
  local entry = redis.call('ZSCORE', q.leases, id)
  if not entry or left == 0 then
    steps[1] = { { 'ZADD', q.leases, int(now + left), id } }
    steps[2] = { { 'ZADD', P .. 'timers', 'LT', int(now + left), q.name } }
  end
  return attempt(steps) or { 'LEASED' }
end
steps[1] = { { 'SREM', q.inprog, id }, { 'SADD', q.inprog, id } }
if h and h.status == 'PENDING' and not h.lane then
  clear_lease(h)
  touch(h, now, ARGV[3])
  make_ready(steps, q, id, h, tonumber(ARGV[4]))
  local refusal = attempt(steps)
  if refusal then return refusal end
  keep(id, h)
  return { 'READY' }
end
return attempt(steps) or { 'DROPPED' }
