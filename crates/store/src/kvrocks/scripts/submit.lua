-- Ends a task with what its worker says. After guard.lua.
-- ARGV[8..]: status, or '' to ask the guards only; error or '', error for the history, result,
--            retention score, delivery id or '', delivery
if ARGV[8] == '' then return { 'OK' } end
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end

local told = summary(h)
touch(h, now, stamp)
remember(id, h, now, string.lower(ARGV[8]), ARGV[10])
free(q, id, lease)
if ARGV[9] ~= '' then h.error = ARGV[9] end
finish(id, h, ARGV[8], 'NONE', ARGV[11], ARGV[12])
call_back(ARGV[13], ARGV[14], now)
keep(id, h)
return { 'OK', told }
