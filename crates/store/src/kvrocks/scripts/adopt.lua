-- Finds a place for an id in the set of running tasks that has no lease entry or no lease key.
-- ARGV: id, now ms, stamp, lease key prefix, sequence number
local q = queue(1)
local id, now = ARGV[1], tonumber(ARGV[2])
if redis.call('SISMEMBER', q.inprog, id) == 0 then return { 'KEPT' } end
local h = find(id)
ready(q)
if not typed(q.leases, 'zset') then return { 'WRONGTYPE', q.leases } end
if h and h.status == 'IN_PROGRESS' then
  local left = redis.call('PTTL', ARGV[4] .. id)
  if left < 0 then left = 0 end
  local entry = redis.call('ZSCORE', q.leases, id)
  if not entry or left == 0 then redis.call('ZADD', q.leases, int(now + left), id) end
  return { 'LEASED' }
end
redis.call('SREM', q.inprog, id)
if h and h.status == 'PENDING' then
  clear_lease(h)
  touch(h, now, ARGV[3])
  make_ready(q, id, h, tonumber(ARGV[5]))
  keep(id, h)
  return { 'READY' }
end
return { 'DROPPED' }
