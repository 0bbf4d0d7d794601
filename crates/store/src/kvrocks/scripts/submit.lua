-- Ends a task with what its worker says. After guard.lua.
-- ARGV[8..]: status, or '' to ask the guards only; error or '', error for the history, result,
--            retention score, delivery id or '', delivery
if ARGV[8] == '' then return { 'OK' } end
local told, steps = summary_read(h), {}
free(steps, q, id, h)
remember(steps, id, h, now, string.lower(ARGV[8]), ARGV[10])
call_back(steps, ARGV[13], ARGV[14], now)
touch(h, now, stamp)
if ARGV[9] ~= '' then h.error = ARGV[9] end
finish(steps, id, h, ARGV[8], 'NONE', ARGV[11], ARGV[12])
local refusal = attempt(steps)
if refusal then return refusal end
redis.call('DEL', lease)
keep(id, h)
return freed({ 'OK', told })
