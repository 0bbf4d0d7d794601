-- Stores tasks of one queue and makes them claimable now or later.
-- ARGV: queue name, text that follows an id, lower-case command, then of each task: id, record, priority,
--       visible-at score or '', retention score, created ms, which of KEYS is its idempotency key or '',
--       which is that of the original server or ''
-- Replies with the record that exists already, or '', for each task.
local FIELDS = 8
local q = queue(1)

local function kept(key)
  local named = redis.call('GET', key)
  return named, named and redis.call('HGET', TASKS, named)
end

-- The record of an earlier create with the same key. `mine`: those of this call.
local function earlier(key, legacy, mine)
  if mine[key] then return mine[key] end
  local _, text = kept(key)
  if text or not legacy then return text end
  -- The key of the original server is not scoped; its task must be of this tenant and command.
  local named, old = kept(legacy)
  local h = old and parse(old, named)
  if h and belongs(h, ARGV[2]) and string.lower(command(h)) == ARGV[3] then return old end
end

local ids = {}
for at = 4, #ARGV, FIELDS do ids[#ids + 1] = ARGV[at] end
local stored = redis.call('HMGET', TASKS, unpack(ids))
local before = ready(q)
for _, pair in ipairs({ { TTL, 'zset' }, { CREATED, 'zset' }, { QUEUES, 'set' }, { q.delayed, 'zset' } }) do
  if not typed(pair[1], pair[2]) then return { 'WRONGTYPE', pair[1] } end
end

local records, ends, created_at, delayed, keys, mine, replies = {}, {}, {}, {}, {}, {}, {}
local pending = {}
local function add(list, a, b) list[#list + 1], list[#list + 2] = a, b end
for n, id in ipairs(ids) do
  local at = 4 + (n - 1) * FIELDS
  local key = KEYS[tonumber(ARGV[at + 6])]
  local text = stored[n] or (key and earlier(key, KEYS[tonumber(ARGV[at + 7])], mine))
  replies[n] = text or ''
  if not text then
    add(records, id, ARGV[at + 1])
    add(ends, ARGV[at + 4], id)
    add(created_at, ARGV[at + 5], id)
    if ARGV[at + 3] == '' then
      local p = tonumber(ARGV[at + 2])
      pending[p] = pending[p] or {}
      pending[p][#pending[p] + 1] = id
    else
      add(delayed, ARGV[at + 3], id)
    end
    if key then
      mine[key] = ARGV[at + 1]
      add(keys, key, id)
    end
  end
end

if #records > 0 then
  redis.call('HSET', TASKS, unpack(records))
  redis.call('ZADD', TTL, unpack(ends))
  redis.call('ZADD', CREATED, unpack(created_at))
  redis.call('SADD', QUEUES, ARGV[1])
  for p = 0, 9 do
    if pending[p] then redis.call('LPUSH', q.pending[p], unpack(pending[p])) end
  end
  if #delayed > 0 then redis.call('ZADD', q.delayed, unpack(delayed)) end
  for at = 1, #keys, 2 do redis.call('SET', keys[at], keys[at + 1]) end
end
return { 'OK', before, replies }
