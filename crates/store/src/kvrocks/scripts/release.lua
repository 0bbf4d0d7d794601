-- Tells a held task that something it waits for has ended, or has gone elsewhere. After stop.lua.
-- ARGV: id, what has ended, 'C' (completed), 'F' (failed) or 'M' (moved), now ms, stamp, sequence number,
--       what `endings` reads
local q = queue(1)
local id, other, standing, now, stamp = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local h, steps = find(id), {}
local held = h and h.links and h.links.held
if not held then
  steps[1] = { { 'ZREM', ASKS, id } }
  return attempt(steps) or { 'NOTHING' }
end
if redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
local open = {}
for _, one in ipairs(held.open) do
  if one ~= other then open[#open + 1] = one end
end
if #open == #held.open then return { 'NOTHING' } end
if standing == 'M' then
  steps[1] = { { 'ZADD', ASKS, 0, id } }
  noted = true
  return attempt(steps) or { 'NOTHING' }
end

local told = summary_read(h)
if standing == 'F' and not held.run then
  local by, error = endings(now, stamp, 7), 'DEPENDENCY: ' .. other
  withdraw(steps, q, id, h)
  touch(h, now, stamp)
  h.error = error
  call_failure_back(steps, by, id, h, error)
  finish(steps, id, h, 'FAILED', 'NONE', failure_text(by, id, error, 'DEPENDENCY'), by.ends)
  local refusal = attempt(steps)
  if refusal then return refusal end
  keep(id, h)
  return freed({ 'FAILED', told, error })
end
touch(h, now, stamp)
if #open > 0 then
  held.open = open
  keep(id, h)
  return { 'WAITS' }
end
let_go(steps, q, id, h)
local at, pushed = held.at or now + (held.delay or 0), nil
if at > now then
  make_delayed(steps, q, id, h, at)
else
  pushed = make_ready(steps, q, id, h, tonumber(ARGV[6]))
end
local refusal, done = attempt(steps)
if refusal then return refusal end
keep(id, h)
local before = pushed and before_push(q, h, done[pushed]) or 1
return freed({ 'RELEASED', told, before })
