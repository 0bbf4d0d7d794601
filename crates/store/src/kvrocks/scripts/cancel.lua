-- Ends a live task by somebody's word, or asks the owner of a running one to stop by some time. After stop.lua.
-- ARGV: id, text that follows the id, now ms, stamp, deadline ms or '', reason or '', what `endings` reads
local q = queue(1)
local id, now, steps = ARGV[1], tonumber(ARGV[3]), {}
local h = find(id)
if not h or not belongs(h, ARGV[2]) then return { 'NOT_FOUND' } end
if not is_live(h) then return { 'ALREADY_TERMINAL' } end

local told, is_running = summary_read(h), h.status == 'IN_PROGRESS'
if is_running and ARGV[5] ~= '' then
  -- A deadline is only ever moved forward in time, its reason stays.
  local asked, before = tonumber(ARGV[5]), acts_at(h)
  local cancel = h.cancel or { by = asked }
  if cancel.by < asked then asked = cancel.by end
  local reason = cancel.reason or (ARGV[6] ~= '' and ARGV[6] or nil)
  if not h.cancel or asked ~= cancel.by or reason ~= cancel.reason then
    h.cancel = { by = asked, reason = reason }
    local acts = acts_at(h)
    if acts < before then
      steps[1] = { { 'ZADD', q.leases, int(acts), id }, { 'ZADD', q.leases, int(before), id }, always = true }
      steps[2] = { { 'ZADD', P .. 'timers', 'LT', int(acts), q.name } }
    end
    local refusal = attempt(steps)
    if refusal then return refusal end
    touch(h, now, ARGV[4])
    return { 'ASKED', keep(id, h) }
  end
  return { 'ASKED', h.text }
end
if not is_running and redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
local error = cancel_steps(steps, endings(now, ARGV[4], 7), q, id, h, ARGV[6])
local refusal = attempt(steps)
if refusal then return refusal end
if is_running then redis.call('DEL', P .. 'lease:' .. id) end
return freed({ 'OK', keep(id, h), told, error })
