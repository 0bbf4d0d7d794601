-- Removes failed callbacks that have been kept long enough.
-- KEYS: outbox, failed; ARGV: before ms, limit
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
redis.call('HLEN', KEYS[1])
for _, id in ipairs(ids) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
return { 'OK', #ids }
