-- Stores a task and makes it claimable now or later.
-- ARGV: id, record, priority, visible-at score or '', retention score, created ms, queue name,
--       text that follows the id, lower-case command
local q = queue(1)
local id, record = ARGV[1], ARGV[2]

local function kept(key)
  local named = redis.call('GET', key)
  return named, named and redis.call('HGET', TASKS, named)
end

if KEYS[24] then
  local _, text = kept(KEYS[24])
  if text then return { 'EXISTS', text } end
end
-- The key of the original server is not scoped; its task must be of this tenant and command.
if KEYS[25] then
  local named, text = kept(KEYS[25])
  local h = text and parse(text, named)
  if h and belongs(h, ARGV[8]) and string.lower(command(h)) == ARGV[9] then return { 'EXISTS', text } end
end
local stored = redis.call('HGET', TASKS, id)
if stored then return { 'EXISTS', stored } end
local before = ready(q)
for _, pair in ipairs({ { TTL, 'zset' }, { CREATED, 'zset' }, { QUEUES, 'set' }, { q.delayed, 'zset' } }) do
  if not typed(pair[1], pair[2]) then return { 'WRONGTYPE', pair[1] } end
end

redis.call('HSET', TASKS, id, record)
redis.call('ZADD', TTL, ARGV[5], id)
redis.call('ZADD', CREATED, ARGV[6], id)
redis.call('SADD', QUEUES, ARGV[7])
if ARGV[4] == '' then
  redis.call('LPUSH', q.pending[tonumber(ARGV[3])], id)
else
  redis.call('ZADD', q.delayed, ARGV[4], id)
end
if KEYS[24] then redis.call('SET', KEYS[24], id) end
return { 'OK', before }
