-- Gives a task back at once; with a refund the attempt does not count. After guard.lua.
-- ARGV[8..]: refund '1' or '', result, retention score, delivery id or '', delivery, sequence number
local before = ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end

local told = summary(h)
touch(h, now, stamp)
remember(id, h, now, ARGV[8] == '1' and 'refunded' or 'abandoned', '')
free(q, id, lease)
if ARGV[8] ~= '1' and h.attempts - h.refunds >= (h.maxAttempts or 0) then
  h.error = 'MAX_ATTEMPTS'
  redis.call('SADD', q.dlq, id)
  finish(id, h, 'FAILED', 'DLQ_SET', ARGV[9], ARGV[10])
  call_back(ARGV[11], ARGV[12], now)
  keep(id, h)
  return { 'DEAD', 0, before, told }
end
clear_lease(h)
if ARGV[8] == '1' then h.refunds = h.refunds + 1 end
make_ready(q, id, h, tonumber(ARGV[13]))
keep(id, h)
return { 'OK', 0, before, told }
