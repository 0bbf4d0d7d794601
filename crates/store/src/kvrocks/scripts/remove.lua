-- Removes a task with everything that belongs to it.
-- ARGV: id, 'due' (retention), 'done' (an operator's cleanup) or 'dead' (an operator's delete),
--       text that follows the id or '', now ms, before ms, retention s, dead retention s or ''
-- KEYS[24]: lease key, KEYS[25]: idempotency key if there is one
local q = queue(1)
local id, mode, now, before = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
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
if mode == 'dead' then
  if not dead then return { 'NOT_DEAD' } end
else
  local ends = redis.call('ZSCORE', TTL, id)
  if not ends or tonumber(ends) > before / 1000 then return { 'KEPT' } end
  if mode == 'done' and (live or dead) then return { 'KEPT' } end
  if live then
    redis.call('ZADD', TTL, score(now + tonumber(ARGV[6]) * 1000), id)
    return { 'KEPT' }
  end
  if dead and ARGV[7] == '' then
    redis.call('ZADD', TTL, '+inf', id)
    return { 'KEPT' }
  end
end
ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end
local named = KEYS[25] and redis.call('GET', KEYS[25])

redis.call('HDEL', TASKS, id)
redis.call('HDEL', RESULTS, id)
redis.call('HDEL', HISTORY, id)
redis.call('ZREM', TTL, id)
redis.call('ZREM', CREATED, id)
redis.call('DEL', KEYS[24])
if named == id then redis.call('DEL', KEYS[25]) end
if dead or not h.lastKnownLocation then redis.call('SREM', q.dlq, id) end
if not h.lastKnownLocation then
  redis.call('SREM', q.inprog, id)
  redis.call('ZREM', q.leases, id)
  redis.call('ZREM', q.delayed, id)
  redis.call('LREM', q.pending[priority(h)], 1, id)
end
return { 'OK' }
