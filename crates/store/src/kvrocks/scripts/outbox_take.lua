-- Takes due callbacks; each is due again later unless reported on.
-- KEYS: outbox, due; ARGV: now ms, due again ms, limit, bytes from which on no more are taken
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
local texts = {}
local bytes = 0
for i, id in ipairs(ids) do
  texts[i] = redis.call('HGET', KEYS[1], id)
  bytes = bytes + (texts[i] and #texts[i] or 0)
  if bytes >= tonumber(ARGV[4]) then
    for other = #ids, i + 1, -1 do ids[other] = nil end
    break
  end
end
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
