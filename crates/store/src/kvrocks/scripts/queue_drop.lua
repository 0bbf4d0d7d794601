-- Forgets a queue that holds nothing.
-- ARGV: queue name
local q = queue(1)
local held = ready(q) + redis.call('SCARD', q.inprog) + redis.call('ZCARD', q.leases)
  + redis.call('ZCARD', q.delayed) + redis.call('SCARD', q.dlq)
if held > 0 then return { 'KEPT' } end
redis.call('SREM', QUEUES, ARGV[1])
return { 'OK' }
