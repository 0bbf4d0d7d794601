-- Forgets a delivered callback.
-- KEYS: outbox, due; ARGV: id
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return { 'NOT_FOUND' } end
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return { 'NOT_FOUND' } end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return { 'OK' }
