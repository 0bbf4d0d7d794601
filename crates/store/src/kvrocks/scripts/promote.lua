-- Makes due tasks ready, in the order of their instants.
-- ARGV: low-water score, now ms, stamp, limit, first sequence number
local q = queue(1)
local now, seq = tonumber(ARGV[2]), tonumber(ARGV[5])
local due = redis.call('ZRANGEBYSCORE', q.delayed, ARGV[1], score(now), 'WITHSCORES', 'LIMIT', 0, ARGV[4])
if #due == 0 then return { 'OK', {}, 0, 0, '' } end
local before = ready(q)
local found = {}
for i = 1, #due, 2 do found[i] = find(due[i]) or false end

local moved = {}
for i = 1, #due, 2 do
  local id, h = due[i], found[i]
  redis.call('ZREM', q.delayed, id)
  if h and h.status == 'PENDING' and h.lastKnownLocation ~= 'PENDING_LIST' then
    touch(h, now, ARGV[3])
    make_ready(q, id, h, seq)
    seq = seq + 1
    keep(id, h)
    moved[#moved + 1] = summary(h)
  end
end
return { 'OK', moved, #due / 2, before, due[#due] }
