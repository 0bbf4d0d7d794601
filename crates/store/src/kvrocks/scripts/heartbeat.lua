-- Extends a lease that is still alive. After guard.lua.
-- ARGV[8..]: lease ms, lease until ms, lease until text, 'store' or 'caller'
local until_ms = tonumber(ARGV[9])
if ARGV[11] == 'caller' then
  if (h.leaseUntilMs or 0) <= now then return { 'LEASE_LOST' } end
elseif redis.call('GET', lease) ~= ARGV[3] then
  return { 'LEASE_LOST' }
end
local undo = { 'ZADD', q.leases, int(h.leaseUntilMs or 0), id }
local steps = { { { 'ZADD', q.leases, ARGV[9], id }, undo, always = true } }
-- A lease may be shortened, too.
if until_ms < (h.leaseUntilMs or 0) then steps[2] = { { 'ZADD', P .. 'timers', 'LT', ARGV[9], q.name } } end
local refusal = attempt(steps)
if refusal then return refusal end
if ARGV[11] ~= 'caller' then redis.call('PEXPIRE', lease, ARGV[8]) end
h.leaseUntilMs, h.leaseUntil = until_ms, ARGV[10]
touch(h, now, stamp)
keep(id, h)
return { 'OK' }
