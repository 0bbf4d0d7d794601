-- Acts on what is due in one queue. After due.lua.
-- ARGV[13]: how many to make ready at once when there are very many
local q = queue(1)
local bound = redis.call('ZSCORE', P .. 'timers', q.name)
local acted, wrong = act(q, tonumber(bound or ''), math.min(limit, tonumber(ARGV[DUE_ARGS + 1])))
if not acted then return { 'WRONGTYPE', wrong } end
return freed({ 'OK', acted })
