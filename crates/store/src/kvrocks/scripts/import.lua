-- Stores a task from elsewhere under its own id, in the place that its record names.
-- ARGV: id, record, priority, visible-at score, retention score, created ms, queue name, result or '', place
local q = queue(1)
local id = ARGV[1]
if redis.call('HEXISTS', TASKS, id) == 1 then return { 'EXISTS' } end
local named = KEYS[24] and redis.call('GET', KEYS[24])
if named and redis.call('HEXISTS', TASKS, named) == 1 then return { 'KEY_TAKEN' } end
local before = ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end
if not typed(QUEUES, 'set') then return { 'WRONGTYPE', QUEUES } end

redis.call('HSET', TASKS, id, ARGV[2])
redis.call('ZADD', TTL, ARGV[5], id)
redis.call('ZADD', CREATED, ARGV[6], id)
redis.call('SADD', QUEUES, ARGV[7])
if ARGV[8] ~= '' then redis.call('HSET', RESULTS, id, ARGV[8]) end
if ARGV[9] == 'PENDING_LIST' then
  redis.call('LPUSH', q.pending[tonumber(ARGV[3])], id)
elseif ARGV[9] == 'DELAYED_ZSET' then
  redis.call('ZADD', q.delayed, ARGV[4], id)
elseif ARGV[9] == 'DLQ_SET' then
  redis.call('SADD', q.dlq, id)
end
if KEYS[24] then redis.call('SET', KEYS[24], id) end
return { 'OK', before }
