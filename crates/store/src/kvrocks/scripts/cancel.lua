-- Ends a live task by an operator's word.
-- ARGV: id, text that follows the id, now ms, stamp, result, retention score, delivery id or '', delivery
local q = queue(1)
local id, now = ARGV[1], tonumber(ARGV[3])
local h = find(id)
if not h or not belongs(h, ARGV[2]) then return { 'NOT_FOUND' } end
if h.status ~= 'PENDING' and h.status ~= 'IN_PROGRESS' then return { 'ALREADY_TERMINAL' } end
ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end

local told = summary(h)
touch(h, now, ARGV[4])
if h.status == 'IN_PROGRESS' then
  remember(id, h, now, 'cancelled', 'CANCELLED')
  free(q, id, KEYS[24])
elseif h.lastKnownLocation == 'DELAYED_ZSET' then
  redis.call('ZREM', q.delayed, id)
else
  redis.call('LREM', q.pending[priority(h)], 1, id)
end
h.error, h.cancelled = 'CANCELLED', true
finish(id, h, 'FAILED', 'NONE', ARGV[5], ARGV[6])
call_back(ARGV[7], ARGV[8], now)
return { 'OK', keep(id, h), told }
