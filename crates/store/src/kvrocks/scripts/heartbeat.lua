-- Extends a lease that is still alive, and keeps what the worker says. After guard.lua.
-- ARGV[8..]: lease ms, lease until ms, lease until text, 'store' or 'caller', progress or '', checkpoint or ''
-- Replies with the end of the lease; if the task is to stop, by when and why; and which attempt runs.
local life, until_ms, until_text = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
if ARGV[11] == 'caller' then
  if (h.leaseUntilMs or 0) <= now then return { 'LEASE_LOST' } end
elseif redis.call('GET', lease) ~= ARGV[3] then
  return { 'LEASE_LOST' }
end
local own = (h.maxRunMs or 0) > 0 and h.maxRunMs or (rule_of(q) or {}).run
local longest = own and (h.claimedAtMs or now) + own
if longest and longest < until_ms then life, until_ms, until_text = longest - now, longest, '' end
local before = acts_at(h)
h.leaseUntilMs, h.leaseUntil = until_ms, until_text
local acts, undo = acts_at(h), { 'ZADD', q.leases, int(before), id }
local steps = { { { 'ZADD', q.leases, int(acts), id }, undo, always = true } }
-- A lease may be shortened, too.
if acts < before then steps[2] = { { 'ZADD', P .. 'timers', 'LT', int(acts), q.name } } end
leave_checkpoint(steps, id, h, ARGV[13])
local refusal = attempt(steps)
if refusal then return refusal end
if ARGV[11] ~= 'caller' then redis.call('PEXPIRE', lease, int(math.max(life, 1))) end
if ARGV[12] ~= '' then
  redis.pcall('HSET', P .. 'progress', id, ARGV[12])
  add_note(h, PROGRESS)
end
touch(h, now, stamp)
keep(id, h)
local cancel = h.cancel or { by = 0 }
return { 'OK', int(until_ms), int(cancel.by), cancel.reason or '', int(h.attempts) }
