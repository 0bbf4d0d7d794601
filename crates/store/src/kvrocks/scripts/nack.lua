-- Gives a task back: to wait, or to the dead letters. After guard.lua.
-- ARGV[8..]: seconds or '' for the policy, backoff ranges, draw, reason or '', reason for the history,
--            result, retention score, delivery id or '', delivery, sequence number
local before = ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end

local used, told = h.attempts - h.refunds, summary(h)
touch(h, now, stamp)
remember(id, h, now, 'nack', ARGV[12])
free(q, id, lease)
if used >= (h.maxAttempts or 0) then
  h.error = ARGV[11] ~= '' and ARGV[11] or 'MAX_ATTEMPTS'
  redis.call('SADD', q.dlq, id)
  finish(id, h, 'FAILED', 'DLQ_SET', ARGV[13], ARGV[14])
  call_back(ARGV[15], ARGV[16], now)
  keep(id, h)
  return { 'DEAD', 0, before, told }
end
if ARGV[11] ~= '' then h.error = ARGV[11] end
local delay = ARGV[8] ~= '' and tonumber(ARGV[8]) or delay_of(ARGV[9], used, tonumber(ARGV[10]))
clear_lease(h)
if delay == 0 then
  make_ready(q, id, h, tonumber(ARGV[17]))
else
  make_delayed(q, id, h, now + delay * 1000)
end
keep(id, h)
return { 'OK', delay, before, told }
