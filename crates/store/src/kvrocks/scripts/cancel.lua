-- Ends a live task by an operator's word. The id of a ready one stays in its list until somebody pops it: a list is
-- never searched.
-- ARGV: id, text that follows the id, now ms, stamp, result, retention score, delivery id or '', delivery
local q = queue(1)
local id, now, steps = ARGV[1], tonumber(ARGV[3]), {}
local h = find(id)
if not h or not belongs(h, ARGV[2]) then return { 'NOT_FOUND' } end
if h.status ~= 'PENDING' and h.status ~= 'IN_PROGRESS' then return { 'ALREADY_TERMINAL' } end

local told, is_running = summary_read(h), h.status == 'IN_PROGRESS'
if not is_running and redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
if is_running then
  free(steps, q, id, h)
  remember(steps, id, h, now, 'cancelled', 'CANCELLED')
elseif h.lastKnownLocation == 'DELAYED_ZSET' then
  local undo = { 'ZADD', q.delayed, score(h.visibleAtMs or 0), id }
  steps[1] = { { 'ZREM', q.delayed, id }, undo }
else
  local p = priority(h)
  steps[1] = { { 'HINCRBY', q.stale, p, 1 }, { 'HINCRBY', q.stale, p, -1 } }
end
touch(h, now, ARGV[4])
h.error, h.cancelled = 'CANCELLED', true
call_back(steps, ARGV[7], ARGV[8], now)
finish(steps, id, h, 'FAILED', 'NONE', ARGV[5], ARGV[6])
local refusal = attempt(steps)
if refusal then return refusal end
if is_running then redis.call('DEL', P .. 'lease:' .. id) end
return { 'OK', keep(id, h), told }
