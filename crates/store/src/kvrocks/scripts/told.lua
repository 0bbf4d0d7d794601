-- Forgets who has been told of an end; the note goes with the last of them. After base.lua.
-- ARGV: note, id, who was told
local key = P .. 'watchers:' .. ARGV[2]
local steps = {}
if #ARGV > 2 then steps[1] = { { 'ZREM', key, unpack(ARGV, 3) } } end
local refusal = attempt(steps)
if refusal then return refusal end
if redis.call('EXISTS', key) == 1 then return { 'MORE' } end
return attempt({ { { 'ZREM', P .. 'ended', ARGV[1] } } }) or { 'OK' }
