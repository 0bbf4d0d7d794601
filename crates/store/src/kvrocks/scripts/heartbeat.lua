-- Extends a lease that is still alive. After guard.lua.
-- ARGV[8..]: lease ms, lease until ms, lease until text, 'store' or 'caller'
if ARGV[11] == 'caller' then
  if (h.leaseUntilMs or 0) <= now then return { 'LEASE_LOST' } end
elseif redis.call('GET', lease) ~= ARGV[3] then
  return { 'LEASE_LOST' }
end
if not typed(q.leases, 'zset') then return { 'WRONGTYPE', q.leases } end

if ARGV[11] ~= 'caller' then redis.call('PEXPIRE', lease, ARGV[8]) end
redis.call('ZADD', q.leases, ARGV[9], id)
h.leaseUntilMs, h.leaseUntil = tonumber(ARGV[9]), ARGV[10]
touch(h, now, stamp)
keep(id, h)
return { 'OK' }
