-- Replaces a topic if it is still the one that was read.
-- KEYS: topic, index; ARGV: text that was read or '', new text or '' to delete, topic id
local stored = redis.call('GET', KEYS[1]) or ''
if stored ~= ARGV[1] then return { 'CONFLICT' } end
redis.call('SCARD', KEYS[2])
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
  redis.call('SREM', KEYS[2], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call('SADD', KEYS[2], ARGV[3])
end
return { 'OK' }
