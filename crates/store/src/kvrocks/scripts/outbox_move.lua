-- Moves a callback from one set to the other, or within its own, and counts its attempts: a retry, the last
-- failure, and a redelivery.
-- KEYS: outbox, from, to; ARGV: id, score, error, 'count' or 'anew', text that follows the task id or ''
local id = ARGV[1]
local text = redis.call('HGET', KEYS[1], id)
if not text or not redis.call('ZSCORE', KEYS[2], id) then return { 'NOT_FOUND' } end
local at = string.find(text, ',"id":"' .. id .. '"', 1, true)
local tail = at and string.sub(text, at)
-- Behind the id (32 digits) stands the task id (36), then the tenant.
if not tail or (ARGV[5] ~= '' and string.sub(tail, 89, 88 + #ARGV[5]) ~= ARGV[5]) then return { 'NOT_FOUND' } end
redis.call('ZCARD', KEYS[3])
local attempts = 0
if ARGV[4] == 'count' then attempts = tonumber(string.match(text, '^{"attempts":(%d+)') or '0') + 1 end

local head = '{"attempts":' .. string.format('%.0f', attempts)
if ARGV[3] ~= '' then head = head .. ',"lastError":' .. cjson.encode(ARGV[3]) end
redis.call('HSET', KEYS[1], id, head .. tail)
if KEYS[2] ~= KEYS[3] then redis.call('ZREM', KEYS[2], id) end
redis.call('ZADD', KEYS[3], ARGV[2], id)
return { 'OK', head .. tail }
