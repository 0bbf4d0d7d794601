-- Puts a queue in order that other writers, or older versions, may have left: writes its bound and its place in its
-- tenant's index, and drops ids from the ends of its lists that are not pending. After due.lua.
-- ARGV[13..]: tenant, ids to look at
local q = queue(1)
local tenant, looks = ARGV[DUE_ARGS + 1], tonumber(ARGV[DUE_ARGS + 2])
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end
redis.call('SADD', P .. 'queues:' .. tenant, q.name)
set_bound(q, nil)
for p = 9, 0, -1 do
  while looks > 0 do
    local id = redis.call('LINDEX', q.list .. p, -1)
    local h = id and find(id)
    if not id or (h and h.status == 'PENDING') then break end
    redis.call('RPOP', q.list .. p)
    if redis.call('HINCRBY', q.stale, p, -1) <= 0 then redis.call('HDEL', q.stale, p) end
    looks = looks - 1
  end
  if redis.call('LLEN', q.list .. p) == 0 then redis.call('HDEL', q.stale, p) end
end
return { 'OK' }
