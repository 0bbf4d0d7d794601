-- Stores an operation of a version one above the stored one.
-- KEYS: operations; ARGV: id, version, text
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local version = stored and tonumber(string.match(stored, '^{"version":(%d+)') or '0') or 0
if version + 1 ~= tonumber(ARGV[2]) then return { 'CONFLICT' } end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return { 'OK' }
