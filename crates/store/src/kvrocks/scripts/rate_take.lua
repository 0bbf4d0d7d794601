-- Takes one request out of a token bucket.
-- KEYS: bucket; ARGV: tokens per second, capacity, now ms
local rate, capacity, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens, ts = tonumber(kept[1] or ''), tonumber(kept[2] or '')
if not tokens or not ts then tokens, ts = capacity, now end
if now > ts then tokens, ts = math.min(capacity, tokens + (now - ts) / 1000 * rate), now end
local allowed = tokens >= 1
if allowed then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.9f', tokens), 'ts', string.format('%.0f', ts))
local life = math.ceil((capacity - tokens) / rate * 1000)
redis.call('PEXPIRE', KEYS[1], math.max(30000, math.min(3600000, life)))
if allowed then return { 1, 0 } end
return { 0, math.max(1, math.ceil((1 - tokens) / rate)) }
