-- Stores a task that moves here from another shard, at the tail of its place.
-- ARGV: id, record, place, priority, visible-at score, retention score or '', created score, result or '',
--       history or '', queue name
local q = queue(1)
local id, where = ARGV[1], ARGV[3]
if redis.call('HEXISTS', TASKS, id) == 1 then return { 'EXISTS' } end
ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end
if not typed(QUEUES, 'set') then return { 'WRONGTYPE', QUEUES } end

redis.call('HSET', TASKS, id, ARGV[2])
if ARGV[6] ~= '' then redis.call('ZADD', TTL, ARGV[6], id) end
redis.call('ZADD', CREATED, ARGV[7], id)
if ARGV[8] ~= '' then redis.call('HSET', RESULTS, id, ARGV[8]) end
if ARGV[9] ~= '' then redis.call('HSET', HISTORY, id, ARGV[9]) end
redis.call('SADD', QUEUES, ARGV[10])
if where == 'pending' then
  redis.call('LPUSH', q.pending[tonumber(ARGV[4])], id)
elseif where == 'delayed' then
  redis.call('ZADD', q.delayed, ARGV[5], id)
else
  redis.call('SADD', q.dlq, id)
end
if KEYS[24] then redis.call('SET', KEYS[24], id) end
return { 'OK' }
