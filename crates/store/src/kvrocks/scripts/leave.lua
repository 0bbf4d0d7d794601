-- Forgets a task that has moved to another shard.
-- ARGV: id, place, priority; KEYS[24]: idempotency key if there is one
local q = queue(1)
local id = ARGV[1]
ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end
local named = KEYS[24] and redis.call('GET', KEYS[24])

if ARGV[2] == 'pending' then
  redis.call('LREM', q.pending[tonumber(ARGV[3])], -1, id)
elseif ARGV[2] == 'delayed' then
  redis.call('ZREM', q.delayed, id)
else
  redis.call('SREM', q.dlq, id)
end
redis.call('HDEL', TASKS, id)
redis.call('HDEL', RESULTS, id)
redis.call('HDEL', HISTORY, id)
redis.call('ZREM', TTL, id)
redis.call('ZREM', CREATED, id)
if named == id then redis.call('DEL', KEYS[24]) end
return { 'OK' }
