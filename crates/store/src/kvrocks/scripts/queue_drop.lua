-- Forgets a queue that holds nothing. After base.lua.
-- ARGV: tenant, '1' if the queue lives on another shard now
local q = queue(1)
local keys = { q.inprog, q.leases, q.delayed, q.dlq, q.held, q.base .. ':lanes' }
for p = 0, 9 do keys[#keys + 1] = q.list .. p end
if redis.call('EXISTS', unpack(keys)) > 0 then return { 'KEPT' } end
redis.call('SREM', P .. 'queues', q.name)
redis.call('SREM', P .. 'queues:' .. ARGV[1], q.name)
redis.call('ZREM', P .. 'timers', q.name)
redis.call('DEL', q.stale)
if ARGV[2] == '1' then
  for _, name in ipairs({ 'flow', 'overrides', 'closed', 'rates', 'holds' }) do redis.call('DEL', q.base .. ':' .. name) end
  redis.call('SREM', P .. 'policies', q.name)
  redis.call('SREM', P .. 'policies:' .. ARGV[1], q.name)
end
return { 'OK' }
