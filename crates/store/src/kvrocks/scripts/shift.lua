-- Moves a task from one queue to another of the same keyspace. Its record, result and keys stay where they are.
-- KEYS: shared, source, destination; ARGV: id, place, priority, record that was read or '', record as it is to
--       be, name of the destination
local from, to = queue(1), queue(2)
local id, where, p = ARGV[1], ARGV[2], tonumber(ARGV[3])
if (redis.call('HGET', TASKS, id) or '') ~= ARGV[4] then return { 'CONFLICT' } end
ready(from)
ready(to)
local wrong = misused(from) or misused(to)
if wrong then return { 'WRONGTYPE', wrong } end
if not typed(QUEUES, 'set') then return { 'WRONGTYPE', QUEUES } end

local is_there
if where == 'pending' then
  is_there = redis.call('LREM', from.pending[p], -1, id) > 0
elseif where == 'delayed' then
  is_there = redis.call('ZSCORE', from.delayed, id)
  redis.call('ZREM', from.delayed, id)
else
  is_there = redis.call('SREM', from.dlq, id) > 0
end
-- An id without a record is only dropped.
if not is_there or ARGV[4] == '' then return { 'OK' } end
redis.call('HSET', TASKS, id, ARGV[5])
redis.call('SADD', QUEUES, ARGV[6])
if where == 'pending' then
  redis.call('LPUSH', to.pending[p], id)
elseif where == 'delayed' then
  redis.call('ZADD', to.delayed, is_there, id)
else
  redis.call('SADD', to.dlq, id)
end
return { 'OK' }
