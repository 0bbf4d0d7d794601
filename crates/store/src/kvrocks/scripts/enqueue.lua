-- Stores tasks of one queue and makes them claimable now or later. After record.lua.
-- ARGV: tenant, text that follows an id, lower-case command, then of each task: id, record, priority,
--       visible-at score or '', retention score, created ms, idempotency key or '', that of the original server or ''
-- Replies with the record that exists already, or '', for each task.
local FIELDS = 8
local q = queue(1)

local function kept(key)
  local named = redis.call('GET', key)
  -- A task that has moved left a pointer, which is replied as it is.
  if named and string.sub(named, 1, 1) == '>' then return named, named end
  return named, named and redis.call('HGET', TASKS, named)
end

-- The record of an earlier create with the same key. `mine`: those of this call.
local function earlier(key, legacy, mine)
  if mine[key] then return mine[key] end
  local _, text = kept(key)
  if text or legacy == '' then return text end
  -- The key of the original server is not scoped; its task must be of this tenant and command.
  local named, old = kept(legacy)
  if old == named then return old end
  local h = old and parse(old, named)
  if h and belongs(h, ARGV[2]) and string.lower(command(h)) == ARGV[3] then return old end
end

local ids = {}
for at = 4, #ARGV, FIELDS do ids[#ids + 1] = ARGV[at] end
local stored = redis.call('HMGET', TASKS, unpack(ids))

local records, ends, created_at, delayed, keys, mine, replies = {}, {}, {}, {}, {}, {}, {}
local pending, earliest = {}, nil
local function add(list, a, b) list[#list + 1], list[#list + 2] = a, b end
for n, id in ipairs(ids) do
  local at = 4 + (n - 1) * FIELDS
  local key = ARGV[at + 6]
  local text = stored[n] or (key ~= '' and earlier(key, ARGV[at + 7], mine))
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
      local visible = math.floor(tonumber(ARGV[at + 3]) * 1000)
      if not earliest or visible < earliest then earliest = visible end
    end
    if key ~= '' then
      mine[key] = ARGV[at + 1]
      add(keys, key, id)
    end
  end
end
if #records == 0 then return { 'OK', 1, replies } end

local steps, pushes, made = {}, {}, {}
for at = 1, #records, 2 do made[#made + 1] = records[at] end
for p = 0, 9 do
  if pending[p] then
    local list = q.list .. p
    steps[#steps + 1] = { { 'LPUSH', list, unpack(pending[p]) }, { 'LPOP', list, #pending[p] } }
    pushes[p] = { count = #pending[p], step = #steps }
  end
end
if #delayed > 0 then
  steps[#steps + 1] = { { 'ZADD', q.delayed, unpack(delayed) }, { 'ZREM', q.delayed, unpack(made) } }
  steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(earliest), q.name } }
end
steps[#steps + 1] = { { 'ZADD', P .. 'tasks:ttl', unpack(ends) }, { 'ZREM', P .. 'tasks:ttl', unpack(made) } }
steps[#steps + 1] = { { 'ZADD', P .. 'created', unpack(created_at) }, { 'ZREM', P .. 'created', unpack(made) } }
steps[#steps + 1] = { { 'SADD', P .. 'queues', q.name } }
local refusal, done = attempt(steps)
if refusal then return refusal end
-- A queue that the index did not name is not in its tenant's, either.
if done[#steps] == 1 then redis.pcall('SADD', P .. 'queues:' .. ARGV[1], q.name) end
redis.call('HSET', TASKS, unpack(records))
for at = 1, #keys, 2 do redis.call('SET', keys[at], keys[at + 1]) end
local before = 1
if next(pushes) then
  for _, push in pairs(pushes) do push.length = done[push.step] end
  before = ready_before(q, pushes)
end
return { 'OK', before, replies }
