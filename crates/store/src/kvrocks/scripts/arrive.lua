-- Stores a task that moves here from another shard, at the tail of its place. After links.lua.
-- ARGV: id, record, place, priority, visible-at score, retention score or '', created score, result or '',
--       history or '', tenant, idempotency key or '', expiry ms or '', unique key or '', checkpoint or '', batch or ''
local q = queue(1)
local id, where, steps = ARGV[1], ARGV[3], {}
if redis.call('HEXISTS', TASKS, id) == 1 then return { 'EXISTS' } end
local h = parse(ARGV[2], id)
local is_laned = h and h.lane and where ~= 'dead'
if is_laned then settle_in(steps, q, id, h, where == 'pending') end
if is_laned and where == 'pending' then
  -- It is in its lane.
elseif where == 'pending' then
  local list = q.list .. ARGV[4]
  steps[1] = { { 'LPUSH', list, id }, { 'LPOP', list } }
elseif where == 'delayed' then
  steps[#steps + 1] = { { 'ZADD', q.delayed, ARGV[5], id }, { 'ZREM', q.delayed, id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(math.floor(tonumber(ARGV[5]) * 1000)), q.name } }
elseif where == 'held' then
  steps[#steps + 1] = { { 'SADD', q.held, id }, { 'SREM', q.held, id } }
  steps[#steps + 1] = { { 'ZADD', ASKS, 0, id }, { 'ZREM', ASKS, id } }
  noted = true
else
  steps[1] = { { 'SADD', q.dlq, id }, { 'SREM', q.dlq, id } }
end
steps[#steps + 1] = { { 'ZADD', P .. 'created', ARGV[7], id }, { 'ZREM', P .. 'created', id } }
if ARGV[6] ~= '' then
  steps[#steps + 1] = { { 'ZADD', P .. 'tasks:ttl', ARGV[6], id }, { 'ZREM', P .. 'tasks:ttl', id } }
end
if ARGV[8] ~= '' then steps[#steps + 1] = { { 'HSET', P .. 'results', id, ARGV[8] }, { 'HDEL', P .. 'results', id } } end
if ARGV[9] ~= '' then steps[#steps + 1] = { { 'HSET', P .. 'history', id, ARGV[9] }, { 'HDEL', P .. 'history', id } } end
if ARGV[12] ~= '' then
  steps[#steps + 1] = { { 'ZADD', q.leases, ARGV[12], id }, { 'ZREM', q.leases, id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', ARGV[12], q.name } }
end
if ARGV[14] ~= '' then
  steps[#steps + 1] = { { 'HSET', P .. 'checkpoints', id, ARGV[14] }, { 'HDEL', P .. 'checkpoints', id } }
end
if ARGV[15] ~= '' then arrive_member(steps, ARGV[15], id, ARGV[7], where) end
steps[#steps + 1] = { { 'SADD', P .. 'queues', q.name } }
steps[#steps + 1] = { { 'SADD', P .. 'queues:' .. ARGV[10], q.name } }
local refusal = attempt(steps)
if refusal then return refusal end
redis.call('HSET', TASKS, id, is_laned and head_text(h) .. h.tail or ARGV[2])
if ARGV[11] ~= '' then redis.call('SET', ARGV[11], id) end
if ARGV[13] ~= '' then redis.call('SETNX', ARGV[13], id) end
return freed({ 'OK' })
