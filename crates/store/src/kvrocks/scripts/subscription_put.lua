-- Stores a subscription that is new, or still the one that was read.
-- KEYS: subscriptions, index of each event type; ARGV: id, text that was read or '', new text, expiry s
local stored = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if stored ~= ARGV[2] then return { 'CONFLICT' } end
for i = 2, #KEYS do redis.call('ZCARD', KEYS[i]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for i = 2, #KEYS do redis.call('ZADD', KEYS[i], ARGV[4], ARGV[1]) end
return { 'OK' }
