-- Makes due tasks ready, in the order of their instants.
-- ARGV: low-water score, now ms, stamp, limit, limit while more is due than the first one and as many are ready,
--       first sequence number
local q = queue(1)
local now, limit, seq = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[6])
local due = redis.call('ZRANGEBYSCORE', q.delayed, ARGV[1], score(now), 'WITHSCORES', 'LIMIT', 0, limit)
local found = #due / 2
if found == 0 then return { 'OK', {}, 0, 0, '' } end
local before = ready(q)
local taken = found
if found == limit and before >= limit then taken = tonumber(ARGV[5]) end
if taken == 0 then return { 'OK', {}, found, 0, '' } end
local ids = {}
for n = 1, taken do ids[n] = due[2 * n - 1] end
local tasks = {}
in_parts(ids, function(part)
  for i, text in ipairs(redis.call('HMGET', TASKS, unpack(part))) do
    local h = parse(text, part[i])
    local at = tonumber(due[2 * #tasks + 2])
    tasks[#tasks + 1] = { id = part[i], h = h, at = at, number = h and number(h) or 0 }
  end
end)
-- Those of one instant in the order of their creation.
table.sort(tasks, function(a, b)
  if a.at ~= b.at then return a.at < b.at end
  if a.number ~= b.number then return a.number < b.number end
  return a.id < b.id
end)

local moved, records, pending = {}, {}, {}
for _, task in ipairs(tasks) do
  local id, h = task.id, task.h
  if h and h.status == 'PENDING' then
    touch(h, now, ARGV[3])
    place(h, 'PENDING', 'PENDING_LIST')
    h.seq = seq
    seq = seq + 1
    local head = head_text(h)
    records[#records + 1], records[#records + 2] = id, head .. h.tail
    moved[#moved + 1] = summary(h, head)
    local p = priority(h)
    pending[p] = pending[p] or {}
    pending[p][#pending[p] + 1] = id
  end
end
in_parts(ids, function(part) redis.call('ZREM', q.delayed, unpack(part)) end)
in_parts(records, function(part) redis.call('HSET', TASKS, unpack(part)) end)
for p = 0, 9 do
  in_parts(pending[p] or {}, function(part) redis.call('LPUSH', q.pending[p], unpack(part)) end)
end
return { 'OK', moved, found, before, due[2 * taken] }
