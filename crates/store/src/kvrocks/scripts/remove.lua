-- Removes a task with everything that belongs to it. Ids of lists are left to whoever pops them.
-- ARGV: id, 'due' (retention), 'done' (an operator's cleanup) or 'dead' (an operator's delete),
--       text that follows the id or '', now ms, before ms, retention s, dead retention s or '',
--       idempotency key or ''
local q = queue(1)
local id, mode, now, before = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local TTL = P .. 'tasks:ttl'
local text = redis.call('HGET', TASKS, id)
local h = parse(text, id)
if text and not h then return { 'DAMAGED' } end
if not h then
  if mode == 'due' then redis.call('ZREM', TTL, id) end
  return { 'NOT_FOUND' }
end
if ARGV[3] ~= '' and not belongs(h, ARGV[3]) then return { 'NOT_FOUND' } end
local dead = h.lastKnownLocation == 'DLQ_SET'
local live = h.status == 'PENDING' or h.status == 'IN_PROGRESS'
local ends = redis.call('ZSCORE', TTL, id)
if mode == 'dead' then
  if not dead then return { 'NOT_DEAD' } end
  if redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
else
  if not ends or tonumber(ends) > before / 1000 then return { 'KEPT' } end
  if mode == 'done' and (live or dead) then return { 'KEPT' } end
  if live then
    redis.call('ZADD', TTL, score(now + tonumber(ARGV[6]) * 1000), id)
    return { 'KEPT' }
  end
  if dead and redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'KEPT' } end
  if dead and ARGV[7] == '' then
    redis.call('ZADD', TTL, '+inf', id)
    return { 'KEPT' }
  end
end
local named = ARGV[8] ~= '' and redis.call('GET', ARGV[8])
local result, history = redis.call('HGET', P .. 'results', id), redis.call('HGET', P .. 'history', id)

local steps = {
  { { 'ZREM', P .. 'created', id }, { 'ZADD', P .. 'created', int(created(h)), id } },
  { { 'ZREM', TTL, id }, ends and { 'ZADD', TTL, ends, id } },
}
if result then steps[#steps + 1] = { { 'HDEL', P .. 'results', id }, { 'HSET', P .. 'results', id, result } } end
if history then steps[#steps + 1] = { { 'HDEL', P .. 'history', id }, { 'HSET', P .. 'history', id, history } } end
count_failed(steps, q, h, -1)
local rule = h.unique
local key = rule and P .. 'unique:' .. rule.name
if key and redis.pcall('GET', key) == id then steps[#steps + 1] = { { 'DEL', key }, { 'SET', key, id } } end
if dead or not h.lastKnownLocation then steps[#steps + 1] = { { 'SREM', q.dlq, id }, { 'SADD', q.dlq, id } } end
if not h.lastKnownLocation then
  steps[#steps + 1] = { { 'SREM', q.inprog, id }, { 'SADD', q.inprog, id } }
  steps[#steps + 1] = { { 'ZREM', q.leases, id } }
  steps[#steps + 1] = { { 'ZREM', q.delayed, id } }
end
local refusal = attempt(steps)
if refusal then return refusal end
redis.call('HDEL', TASKS, id)
if has_note(h, CHECKPOINT) then redis.pcall('HDEL', P .. 'checkpoints', id) end
if not h.lastKnownLocation then redis.call('DEL', P .. 'lease:' .. id) end
if named == id then redis.call('DEL', ARGV[8]) end
return { 'OK' }
