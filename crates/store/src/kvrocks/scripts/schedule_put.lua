-- Puts, changes or deletes a schedule, if it is still the one that was read. After base.lua.
-- ARGV: tenant and name, tenant, name, definition that was read or '', progress that was read or '', new definition or
--       '' to delete, new progress, next tick ms or '', bytes more than before, most schedules of a tenant, most bytes
local SCHEDULES, PROGRESS_OF, BYTES = P .. 'schedules', P .. 'schedules:progress', P .. 'schedules:bytes'
local TICKS, index = P .. 'ticks', P .. 'schedules:of:' .. ARGV[2]
local field, more = ARGV[1], tonumber(ARGV[9])
local definition, progress = redis.call('HGET', SCHEDULES, field), redis.call('HGET', PROGRESS_OF, field)
if (definition or '') ~= ARGV[4] or (progress or '') ~= ARGV[5] then return { 'CHANGED' } end
local bytes = tonumber(redis.call('HGET', BYTES, ARGV[2]) or 0) + more
local count = redis.call('ZCARD', index) + (definition and 0 or 1)
local tick = redis.call('ZSCORE', TICKS, field)
if ARGV[6] ~= '' and (count > tonumber(ARGV[10]) or bytes > tonumber(ARGV[11])) then return { 'TOO_MANY' } end

local function undo(command, key, value) return value and { command, key, field, value } or { 'HDEL', key, field } end
local undo_tick = tick and { 'ZADD', TICKS, tick, field } or { 'ZREM', TICKS, field }
local undo_bytes = { 'HINCRBY', BYTES, ARGV[2], -more }
local steps = {}
if ARGV[6] == '' then
  steps[1] = { { 'HDEL', SCHEDULES, field }, undo('HSET', SCHEDULES, definition) }
  steps[2] = { { 'HDEL', PROGRESS_OF, field }, undo('HSET', PROGRESS_OF, progress) }
  steps[3] = { { 'ZREM', index, ARGV[3] }, { 'ZADD', index, 0, ARGV[3] } }
  steps[4] = { { 'ZREM', TICKS, field }, undo_tick }
else
  steps[1] = { { 'HSET', SCHEDULES, field, ARGV[6] }, undo('HSET', SCHEDULES, definition), always = true }
  steps[2] = { { 'HSET', PROGRESS_OF, field, ARGV[7] }, undo('HSET', PROGRESS_OF, progress), always = true }
  steps[3] = { { 'ZADD', index, 0, ARGV[3] }, { 'ZREM', index, ARGV[3] } }
  local set = ARGV[8] == '' and { 'ZREM', TICKS, field } or { 'ZADD', TICKS, ARGV[8], field }
  steps[4] = { set, undo_tick, always = true }
end
steps[5] = { { 'HINCRBY', BYTES, ARGV[2], more }, undo_bytes, always = true }
return attempt(steps) or { 'OK' }
