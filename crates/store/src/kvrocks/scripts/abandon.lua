-- Gives a task back at once; with a refund the attempt does not count. One that was to stop ends. After guard.lua.
-- ARGV[8..]: refund '1' or '', result, retention score, delivery id or '', delivery, sequence number,
--            checkpoint or '', what `endings` reads (4), when it was lent in ms or ''
-- Another lease than the one that is given back: a server that was promoted may have lent the task anew.
if ARGV[19] ~= '' and tonumber(ARGV[19]) ~= h.claimedAtMs then return { 'LEASE_LOST' } end
if h.cancel then return stopped(15, ARGV[14]) end
local told, steps, pushed = summary_read(h), {}, nil
local is_dead = ARGV[8] ~= '1' and h.attempts - h.refunds >= (h.maxAttempts or 0)
free(steps, q, id, h)
remember(steps, id, h, now, ARGV[8] == '1' and 'refunded' or 'abandoned', '')
touch(h, now, stamp)
if is_dead then
  h.error = 'MAX_ATTEMPTS'
  call_back(steps, ARGV[11], ARGV[12], now)
  make_dead(steps, q, id, h, ARGV[9], ARGV[10])
else
  clear_lease(h)
  if ARGV[8] == '1' then h.refunds = h.refunds + 1 end
  pushed = make_ready(steps, q, id, h, tonumber(ARGV[13]))
end
leave_checkpoint(steps, id, h, ARGV[14])
local refusal, done = attempt(steps)
if refusal then return refusal end
redis.call('DEL', lease)
keep(id, h)
local before = pushed and before_push(q, h, done[pushed]) or 1
return freed({ is_dead and 'DEAD' or 'OK', 0, before, told })
