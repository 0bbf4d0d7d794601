-- Stores a task from elsewhere under its own id, in the place that its record names.
-- ARGV: id, record, priority, visible-at score, retention score, created ms, tenant, result or '', place,
--       idempotency key or '', expiry ms or '', unique key or '', checkpoint or ''
local q = queue(1)
local id, steps, pushed = ARGV[1], {}, nil
if redis.call('HEXISTS', TASKS, id) == 1 then return { 'EXISTS' } end
local named = ARGV[10] ~= '' and redis.call('GET', ARGV[10])
if named and redis.call('HEXISTS', TASKS, named) == 1 then return { 'KEY_TAKEN' } end

if ARGV[9] == 'PENDING_LIST' then
  local list = q.list .. ARGV[3]
  steps[1] = { { 'LPUSH', list, id }, { 'LPOP', list } }
  pushed = 1
elseif ARGV[9] == 'DELAYED_ZSET' then
  steps[1] = { { 'ZADD', q.delayed, ARGV[4], id }, { 'ZREM', q.delayed, id } }
  steps[2] = { { 'ZADD', P .. 'timers', 'LT', int(math.floor(tonumber(ARGV[4]) * 1000)), q.name } }
elseif ARGV[9] == 'DLQ_SET' then
  steps[1] = { { 'SADD', q.dlq, id }, { 'SREM', q.dlq, id } }
end
if ARGV[11] ~= '' then
  steps[#steps + 1] = { { 'ZADD', q.leases, ARGV[11], id }, { 'ZREM', q.leases, id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', ARGV[11], q.name } }
end
if ARGV[13] ~= '' then
  steps[#steps + 1] = { { 'HSET', P .. 'checkpoints', id, ARGV[13] }, { 'HDEL', P .. 'checkpoints', id } }
end
steps[#steps + 1] = { { 'ZADD', P .. 'tasks:ttl', ARGV[5], id }, { 'ZREM', P .. 'tasks:ttl', id } }
steps[#steps + 1] = { { 'ZADD', P .. 'created', ARGV[6], id }, { 'ZREM', P .. 'created', id } }
steps[#steps + 1] = { { 'SADD', P .. 'queues', q.name } }
steps[#steps + 1] = { { 'SADD', P .. 'queues:' .. ARGV[7], q.name } }
if ARGV[8] ~= '' then steps[#steps + 1] = { { 'HSET', P .. 'results', id, ARGV[8] } } end
local refusal, done = attempt(steps)
if refusal then return refusal end
redis.call('HSET', TASKS, id, ARGV[2])
if ARGV[10] ~= '' then redis.call('SET', ARGV[10], id) end
if ARGV[12] ~= '' then redis.call('SETNX', ARGV[12], id) end
local before = pushed and ready_before(q, { [tonumber(ARGV[3])] = { count = 1, length = done[pushed] } }) or 1
return { 'OK', before }
