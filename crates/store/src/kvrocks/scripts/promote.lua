-- Makes due tasks ready, in the order of their instants.
-- ARGV: low-water score, now ms, stamp, limit, first sequence number
local q = queue(1)
local now, seq = tonumber(ARGV[2]), tonumber(ARGV[5])
local due = redis.call('ZRANGEBYSCORE', q.delayed, ARGV[1], score(now), 'WITHSCORES', 'LIMIT', 0, ARGV[4])
if #due == 0 then return { 'OK', {}, 0, 0, '' } end
local before = ready(q)
local tasks = {}
for i = 1, #due, 2 do
  local h = find(due[i])
  tasks[#tasks + 1] = { id = due[i], h = h, at = tonumber(due[i + 1]), number = h and number(h) or 0 }
end
-- Those of one instant in the order of their creation.
table.sort(tasks, function(a, b)
  if a.at ~= b.at then return a.at < b.at end
  if a.number ~= b.number then return a.number < b.number end
  return a.id < b.id
end)

local moved = {}
for _, task in ipairs(tasks) do
  local id, h = task.id, task.h
  redis.call('ZREM', q.delayed, id)
  if h and h.status == 'PENDING' then
    touch(h, now, ARGV[3])
    make_ready(q, id, h, seq)
    seq = seq + 1
    keep(id, h)
    moved[#moved + 1] = summary(h)
  end
end
return { 'OK', moved, #tasks, before, due[#due] }
