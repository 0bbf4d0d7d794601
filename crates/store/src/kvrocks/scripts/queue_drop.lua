-- Forgets a queue that holds nothing. After base.lua.
-- ARGV: tenant
local q = queue(1)
local keys = { q.inprog, q.leases, q.delayed, q.dlq }
for p = 0, 9 do keys[#keys + 1] = q.list .. p end
if redis.call('EXISTS', unpack(keys)) > 0 then return { 'KEPT' } end
redis.call('SREM', P .. 'queues', q.name)
redis.call('SREM', P .. 'queues:' .. ARGV[1], q.name)
redis.call('ZREM', P .. 'timers', q.name)
redis.call('DEL', q.stale)
return { 'OK' }
