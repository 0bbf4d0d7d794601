-- Moves the oldest tasks of one place of a queue to another queue of the same keyspace, in one step. Their results and
-- keys stay where they are. After slots.lua.
-- KEYS: tasks, source, destination; ARGV: place, priority, most, name of the destination's shard, tenant
local from, to = queue(1), queue(2)
local where, p, most, shard = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
redis.call('HLEN', TASKS)

-- The same record as one of the other shard, whose name needs no quoting.
local function on_shard(text)
  local _, at = string.find(text, ',"createdNo":', 1, true)
  if not at then return text end
  local stop = at + #(string.match(text, '^%d*', at + 1))
  local _, named = string.find(text, '^,"shard":"[^"]*"', stop + 1)
  return string.sub(text, 1, stop) .. ',"shard":"' .. shard .. '"' .. string.sub(text, (named or stop) + 1)
end

local function move(id, place)
  local text = redis.call('HGET', TASKS, id)
  local h = parse(text, id)
  if not h or (where ~= 'dead' and h.status ~= 'PENDING') then return false end
  if h.lane and where ~= 'dead' then text = shift_lane(from, to, id, h, where) end
  redis.call('HSET', TASKS, id, on_shard(text))
  if place then redis.call(unpack(place)) end
  if expires_at(h) then
    redis.call('ZREM', from.leases, id)
    redis.call('ZADD', to.leases, int(expires_at(h)), id)
    redis.call('ZADD', P .. 'timers', 'LT', int(expires_at(h)), to.name)
  end
  return true
end

redis.call('SADD', P .. 'queues', to.name)
redis.call('SADD', P .. 'queues:' .. ARGV[5], to.name)
local looked = 0
if where == 'pending' then
  local ids = redis.call('RPOP', from.list .. p, most) or {}
  looked = #ids
  for _, id in ipairs(ids) do
    if not move(id, { 'LPUSH', to.list .. p, id }) then
      if redis.call('HINCRBY', from.stale, p, -1) <= 0 then redis.call('HDEL', from.stale, p) end
    end
  end
elseif where == 'lanes' then
  local entries = lanes().some_ready(from, most)
  looked = #entries
  for _, entry in ipairs(entries) do
    if not move(string.sub(entry, -36)) then lanes().drop(from, entry) end
  end
elseif where == 'delayed' then
  local pairs = redis.call('ZRANGE', from.delayed, 0, most - 1, 'WITHSCORES')
  looked = #pairs / 2
  for at = 1, #pairs, 2 do
    redis.call('ZREM', from.delayed, pairs[at])
    if move(pairs[at], { 'ZADD', to.delayed, pairs[at + 1], pairs[at] }) then
      redis.call('ZADD', P .. 'timers', 'LT', int(math.floor(tonumber(pairs[at + 1]) * 1000)), to.name)
    end
  end
else
  local name = where == 'held' and 'held' or 'dlq'
  local ids = redis.call('SPOP', from[name], most)
  looked = #ids
  for _, id in ipairs(ids) do move(id, { 'SADD', to[name], id }) end
end
return { 'OK', looked }
