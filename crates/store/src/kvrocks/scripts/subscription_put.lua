-- Stores a subscription that is new, or still the one that was read.
-- KEYS: subscriptions, index of each event type, index of the tenant; ARGV: id, text that was read or '', new text,
-- expiry s, now s, how many a tenant may have
local stored = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if stored ~= ARGV[2] then return { 'CONFLICT' } end
for i = 2, #KEYS do redis.call('ZCARD', KEYS[i]) end
local living = redis.call('ZCOUNT', KEYS[#KEYS], '(' .. ARGV[5], '+inf')
if stored == '' and living >= tonumber(ARGV[6]) then return { 'FULL' } end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for i = 2, #KEYS do redis.call('ZADD', KEYS[i], ARGV[4], ARGV[1]) end
return { 'OK' }
