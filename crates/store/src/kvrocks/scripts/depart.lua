-- Takes the oldest ids of one place of a queue out of it, to move them to another shard. Until they have arrived there
-- they are in `moving`: nobody can claim them. Gives them in their order. After slots.lua.
-- ARGV: place ('pending', 'delayed', 'held', 'dead', or 'lanes': what is ready in those), priority, most, destination,
--       first number, name of the queue
local q = queue(1)
local where, p, most, to, n = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local MOVING = P .. 'moving'
redis.call('HLEN', MOVING)
redis.call('HLEN', TASKS)

-- Pairs of an id and the score it waits for.
local function taken()
  local pairs = {}
  if where == 'delayed' then
    pairs = redis.call('ZRANGE', q.delayed, 0, most - 1, 'WITHSCORES')
    for at = 1, #pairs, 2 do redis.call('ZREM', q.delayed, pairs[at]) end
    return pairs
  end
  local ids
  if where == 'lanes' then
    for _, entry in ipairs(lanes().some_ready(q, most)) do
      pairs[#pairs + 1], pairs[#pairs + 2] = string.sub(entry, -36), entry
    end
    return pairs
  elseif where == 'dead' then
    ids = redis.call('SPOP', q.dlq, most)
  elseif where == 'held' then
    ids = redis.call('SPOP', q.held, most)
  else
    ids = redis.call('RPOP', q.list .. p, most) or {}
  end
  for _, id in ipairs(ids) do pairs[#pairs + 1], pairs[#pairs + 2] = id, '' end
  return pairs
end

local pairs, ids = taken(), {}
for at = 1, #pairs, 2 do
  local id = pairs[at]
  local h = find(id)
  if h and (where == 'dead' or h.status == 'PENDING') then
    ids[#ids + 1] = id
    -- It does not expire on its way.
    if expires_at(h) then redis.call('ZREM', q.leases, id) end
    if h.lane and where ~= 'dead' then depart_lane(q, id, h, where) end
    local place, own = where, p
    if where == 'lanes' then place, own, pairs[at + 1] = 'pending', priority(h), '' end
    redis.call('HSET', MOVING, id, table.concat({ int(n), to, place, own, pairs[at + 1], ARGV[6] }, '\n'))
    n = n + 1
  elseif where == 'lanes' then
    lanes().drop(q, pairs[at + 1])
  elseif where == 'pending' then
    if redis.call('HINCRBY', q.stale, p, -1) <= 0 then redis.call('HDEL', q.stale, p) end
  end
end
return { 'OK', #pairs / 2, ids }
