-- Stores a task from elsewhere under its own id, in the place that its record names.
-- ARGV: id, record, priority, visible-at score, retention score, created ms, tenant, result or '', place,
--       idempotency key or '', expiry ms or '', unique key or '', checkpoint or ''
local q = queue(1)
local id, steps, pushed = ARGV[1], {}, nil
if redis.call('HEXISTS', TASKS, id) == 1 then return { 'EXISTS' } end
local named = ARGV[10] ~= '' and redis.call('GET', ARGV[10])
if named and redis.call('HEXISTS', TASKS, named) == 1 then return { 'KEY_TAKEN' } end

local h = parse(ARGV[2], id)
local is_laned = h and h.lane and is_live(h)
if is_laned then
  h.accepted = nil
  pushed = settle_in(steps, q, id, h, ARGV[9] == 'PENDING_LIST')
end
if is_laned and pushed then
  -- It is in its lane.
elseif ARGV[9] == 'PENDING_LIST' then
  local list = q.list .. ARGV[3]
  steps[1] = { { 'LPUSH', list, id }, { 'LPOP', list } }
  pushed = 1
elseif ARGV[9] == 'DELAYED_ZSET' then
  steps[#steps + 1] = { { 'ZADD', q.delayed, ARGV[4], id }, { 'ZREM', q.delayed, id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(math.floor(tonumber(ARGV[4]) * 1000)), q.name } }
elseif ARGV[9] == 'HELD_SET' then
  steps[#steps + 1] = { { 'SADD', q.held, id }, { 'SREM', q.held, id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'asks', 0, id }, { 'ZREM', P .. 'asks', id } }
  noted = true
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
if h then count_failed(steps, q, h, 1) end
if ARGV[8] ~= '' then steps[#steps + 1] = { { 'HSET', P .. 'results', id, ARGV[8] } } end
local refusal, done = attempt(steps)
if refusal then return refusal end
redis.call('HSET', TASKS, id, is_laned and head_text(h) .. h.tail or ARGV[2])
if ARGV[10] ~= '' then redis.call('SET', ARGV[10], id) end
if ARGV[12] ~= '' then redis.call('SETNX', ARGV[12], id) end
local before = pushed and before_push(q, h or {}, done[pushed], tonumber(ARGV[3])) or 1
return freed({ 'OK', before })
