-- Replaces a record that is still the one that was read, and indexes it by its creation.
-- KEYS: tasks, created; ARGV: id, text that was read, new text, created ms
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return { 'CONFLICT' } end
redis.call('ZCARD', KEYS[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
return { 'OK' }
