-- Takes due callbacks; each is due again later unless reported on.
-- KEYS: outbox, due; ARGV: now ms, due again ms, limit
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
local texts = {}
for i, id in ipairs(ids) do texts[i] = redis.call('HGET', KEYS[1], id) end
local taken = {}
for i, id in ipairs(ids) do
  if texts[i] then
    redis.call('ZADD', KEYS[2], ARGV[2], id)
    taken[#taken + 1] = texts[i]
  else
    redis.call('ZREM', KEYS[2], id)
  end
end
return { 'OK', taken }
