-- Gives a task back: to wait, or to the dead letters. One that was to stop ends. After guard.lua.
-- ARGV[8..]: seconds or '' for the policy, backoff ranges, draw, reason or '', reason for the history,
--            result, retention score, delivery id or '', delivery, sequence number,
--            refund '1' or '', checkpoint or '', what `endings` reads, most seconds, 'lane' or 'queue' to hold back or ''
if h.cancel then return stopped(20, ARGV[19]) end
local used, told, steps = h.attempts - h.refunds, summary_read(h), {}
local is_refund, delay, pushed = ARGV[18] == '1', 0, nil
local is_dead = not is_refund and used >= (h.maxAttempts or 0)
free(steps, q, id, h)
remember(steps, id, h, now, is_refund and 'refunded' or 'nack', ARGV[12])
touch(h, now, stamp)
if is_dead then
  h.error = ARGV[11] ~= '' and ARGV[11] or 'MAX_ATTEMPTS'
  call_back(steps, ARGV[15], ARGV[16], now)
  make_dead(steps, q, id, h, ARGV[13], ARGV[14])
else
  if ARGV[11] ~= '' then h.error = ARGV[11] end
  if ARGV[25] ~= '' then
    delay = tonumber(ARGV[8])
  elseif ARGV[8] ~= '' then
    delay = asked_delay(q, tonumber(ARGV[8]), tonumber(ARGV[24]))
  else
    delay = delay_of(backoff_of(q, ARGV[9]), used, tonumber(ARGV[10]))
  end
  clear_lease(h)
  if is_refund then h.refunds = h.refunds + 1 end
  if delay == 0 then
    pushed = make_ready(steps, q, id, h, tonumber(ARGV[17]))
  else
    make_delayed(steps, q, id, h, now + delay * 1000)
  end
end
leave_checkpoint(steps, id, h, ARGV[19])
if not is_dead and ARGV[25] ~= '' then hold_back(steps, q, h, ARGV[25], now + delay * 1000, now) end
local refusal, done = attempt(steps)
if refusal then return refusal end
redis.call('DEL', lease)
keep(id, h)
local before = pushed and before_push(q, h, done[pushed]) or 1
return freed({ is_dead and 'DEAD' or 'OK', delay, before, told })
