-- Gives a task that has failed a full set of attempts again.
-- ARGV: id, text that follows the id, now ms, stamp, maximum of attempts or '', sequence number, tenant
local q = queue(1)
local id, steps = ARGV[1], {}
local h = find(id)
if not h or not belongs(h, ARGV[2]) then return { 'NOT_FOUND' } end
if h.status ~= 'FAILED' then return { 'NOT_DEAD' } end
local result, ends = redis.call('HGET', P .. 'results', id), redis.call('ZSCORE', P .. 'tasks:ttl', id)
local is_dead = h.lastKnownLocation == 'DLQ_SET'
-- Its retention is over; it only has not been removed yet.
if not is_dead and ends and tonumber(ends) <= tonumber(ARGV[3]) / 1000 then return { 'NOT_FOUND' } end
if redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
-- It takes its unique key again, unless the key was only for what it has done before.
local rule, now = h.unique, tonumber(ARGV[3])
local key = rule and P .. 'unique:' .. rule.name
if key and rule.to == 'started' and h.attempts > 0 then key = nil end
if key and type(rule.to) == 'number' and rule.to <= now then key = nil end
local holder = key and holder_of(rule.name)
if holder and holder ~= id and still_holds(find(holder), now) then return { 'UNIQUE_CONFLICT' } end
-- The id of a task that was cancelled or expired while it was ready may still lie in its list, where it would be given out at its
-- old place. Near the head it is made the id of no task; whoever pops it drops it. Further back the old place is kept:
-- a list is not searched.
if not h.lane and (h.cancelled or h.error == 'EXPIRED') and tonumber(redis.call('HGET', q.stale, priority(h)) or 0) > 0 then
  local list = q.list .. priority(h)
  local ids = redis.call('LRANGE', list, -1000, -1)
  for at = #ids, 1, -1 do
    if ids[at] == id then
      redis.call('LSET', list, at - #ids - 1, 'none')
      break
    end
  end
end

steps[1] = { { 'HDEL', P .. 'results', id }, result and { 'HSET', P .. 'results', id, result } }
steps[2] = { { 'ZREM', P .. 'tasks:ttl', id }, ends and { 'ZADD', P .. 'tasks:ttl', ends, id } }
count_failed(steps, q, h, -1)
if is_dead then steps[#steps + 1] = { { 'SREM', q.dlq, id }, { 'SADD', q.dlq, id } } end
touch(h, now, ARGV[4])
h.refunds, h.resultKey, h.cancelled, h.expiresAtMs = h.attempts, '', nil, 0
if ARGV[5] ~= '' then h.maxAttempts = tonumber(ARGV[5]) end
reopen_links(steps, id, h, now)
join_lane(steps, q, id, h)
local pushed = make_ready(steps, q, id, h, tonumber(ARGV[6]))
steps[#steps + 1] = { { 'SADD', P .. 'queues', q.name } }
steps[#steps + 1] = { { 'SADD', P .. 'queues:' .. ARGV[7], q.name } }
if key and holder ~= id then
  steps[#steps + 1] = { { 'SET', key, id }, holder and { 'SET', key, holder } or { 'DEL', key }, always = true }
end
local refusal, done = attempt(steps)
if refusal then return refusal end
local text = keep(id, h)
return freed({ 'OK', text, before_push(q, h, done[pushed]) })
