-- Puts lanes of a queue where they belong, after its policy has changed; or clears what nacks hold back. After slots.lua.
-- ARGV: now ms, 'store' or 'caller', '' or 'holds', then names of lanes, or fields of the holds
local q, at = queue(1), tonumber(ARGV[1])
if ARGV[2] ~= 'caller' then
  local time = redis.call('TIME')
  at = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local is_clearing = ARGV[3] == 'holds'
lanes().flow(q)
for n = 4, #ARGV do
  local name = ARGV[n]
  if is_clearing then
    redis.call('HDEL', q.holds, name)
    name = string.sub(name, 2)
  end
  local lane = lanes().load(q, name)
  if lane then lanes().put(q, lane, at) end
end
if is_clearing then lanes().set_holds(q) end
return { 'OK' }
