-- Makes a task ready that waits for its time. One that is ready stays as it is.
-- ARGV: id, text that follows the id, now ms, stamp, sequence number
local q = queue(1)
local id, steps = ARGV[1], {}
local h = find(id)
if not h or not belongs(h, ARGV[2]) then return { 'NOT_FOUND' } end
if h.status == 'PENDING' and h.lastKnownLocation == 'PENDING_LIST' then return { 'READY', h.text } end
if h.status ~= 'PENDING' or h.lastKnownLocation ~= 'DELAYED_ZSET' then return { 'NOT_DELAYED' } end
if redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end

steps[1] = { { 'ZREM', q.delayed, id }, { 'ZADD', q.delayed, score(h.visibleAtMs or 0), id } }
touch(h, tonumber(ARGV[3]), ARGV[4])
local pushed = make_ready(steps, q, id, h, tonumber(ARGV[5]))
local refusal, done = attempt(steps)
if refusal then return refusal end
local text = keep(id, h)
return freed({ 'OK', text, before_push(q, h, done[pushed]) })
