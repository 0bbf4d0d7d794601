-- Replaces the record of a batch, if it is still the one that was read. After links.lua.
-- ARGV: id, record that was read or '', new record or '' to forget it, when it is to be looked after in ms or '',
--       'C' or 'F' if it ends with this, else '', tenant, most batches of a tenant or '', now ms
local BATCHES, DUE, COUNTS, id = P .. 'batches', P .. 'batches:due', P .. 'batches:count', ARGV[1]
local text, due = redis.call('HGET', BATCHES, id), redis.call('ZSCORE', DUE, id)
if (text or '') ~= ARGV[2] then return { 'CHANGED' } end
local count, steps = tonumber(redis.call('HGET', COUNTS, ARGV[6]) or 0), {}
if not text and count >= tonumber(ARGV[7]) then return { 'TOO_MANY' } end

local undo = text and { 'HSET', BATCHES, id, text } or { 'HDEL', BATCHES, id }
local undo_due = due and { 'ZADD', DUE, due, id } or { 'ZREM', DUE, id }
steps[1] = { ARGV[3] == '' and { 'HDEL', BATCHES, id } or { 'HSET', BATCHES, id, ARGV[3] }, undo, always = true }
steps[2] = { ARGV[4] == '' and { 'ZREM', DUE, id } or { 'ZADD', DUE, ARGV[4], id }, undo_due, always = true }
if not text then steps[3] = { { 'HINCRBY', COUNTS, ARGV[6], 1 }, { 'HINCRBY', COUNTS, ARGV[6], -1 } } end
if ARGV[3] == '' then
  local last = count <= 1
  steps[3] = {
    last and { 'HDEL', COUNTS, ARGV[6] } or { 'HINCRBY', COUNTS, ARGV[6], -1 },
    { 'HINCRBY', COUNTS, ARGV[6], 1 },
  }
end
if ARGV[5] ~= '' and redis.call('EXISTS', P .. 'watchers:' .. id) == 1 then
  steps[#steps + 1] = { { 'ZADD', ENDED, ARGV[8], id .. ARGV[5] } }
end
local refusal = attempt(steps)
if refusal then return refusal end
if ARGV[4] ~= '' and tonumber(ARGV[4]) <= tonumber(ARGV[8]) or ARGV[5] ~= '' then noted = true end
return { 'OK' }
