-- Removes a subscription that is still the one that was read.
-- KEYS: subscriptions, last notification, index of each event type; ARGV: id, text that was read
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return { 'CONFLICT' } end
for i = 3, #KEYS do redis.call('ZCARD', KEYS[i]) end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
for i = 3, #KEYS do redis.call('ZREM', KEYS[i], ARGV[1]) end
return { 'OK' }
