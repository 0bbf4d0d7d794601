-- Puts or deletes the policy of a queue, if it is still the one that was read. After slots.lua.
-- ARGV: version that was read or '', text or '' to delete, version, updated ms, rule, most policies of a tenant, tenant,
--       then lanes and what is for them alone
local q = queue(1)
local FLOW, OVERRIDES, ALL, own = q.base .. ':flow', q.base .. ':overrides', P .. 'policies', P .. 'policies:' .. ARGV[7]
if (redis.call('HGET', FLOW, 'version') or '') ~= ARGV[1] then return { 'CHANGED' } end
local before, after = rule_of(q) or {}, ARGV[2] ~= '' and cjson.decode(ARGV[5]) or {}
if (before.ordered or false) ~= (after.ordered or false) and waiting(q) + redis.call('SCARD', q.inprog) > 0 then
  return { 'NOT_EMPTY' }
end
if ARGV[1] == '' and ARGV[2] ~= '' and redis.call('SCARD', own) >= tonumber(ARGV[6]) then return { 'TOO_MANY' } end
redis.call('DEL', OVERRIDES)
if ARGV[2] == '' then
  redis.call('HDEL', FLOW, 'policy', 'version', 'updated', 'rule')
  redis.call('SREM', ALL, q.name)
  redis.call('SREM', own, q.name)
else
  redis.call('HSET', FLOW, 'policy', ARGV[2], 'version', ARGV[3], 'updated', ARGV[4], 'rule', ARGV[5])
  redis.call('SADD', ALL, q.name)
  redis.call('SADD', own, q.name)
  in_parts({ unpack(ARGV, 8) }, function(part) redis.call('HSET', OVERRIDES, unpack(part)) end)
end
if not after.r and not after.lr and not after.rates then
  redis.call('DEL', q.base .. ':rates')
  -- Idle lanes waited there for the end of their rates. Others are put where they belong next.
  if redis.call('HEXISTS', FLOW, 'holds') == 0 then redis.call('DEL', q.base .. ':closed') end
end
if redis.call('HEXISTS', FLOW, 'lanes') == 1 then redis.call('HSET', FLOW, 'arrange', '1') end
return { 'OK' }
