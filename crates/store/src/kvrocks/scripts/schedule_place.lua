-- Replaces the directory entry of a schedule, if it is still the one that was read.
-- KEYS: places; ARGV: tenant and name, entry that was read or '', new entry or ''
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return { 'CHANGED' } end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return { 'OK' }
