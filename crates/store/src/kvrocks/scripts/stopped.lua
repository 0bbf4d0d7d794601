-- A task that was to stop and is given back ends as cancelled. After guard.lua and stop.lua.
local function stopped(at, checkpoint)
  local told, steps = summary_read(h), {}
  local error = cancel_steps(steps, endings(now, stamp, at), q, id, h, h.cancel.reason)
  leave_checkpoint(steps, id, h, checkpoint)
  local refusal = attempt(steps)
  if refusal then return refusal end
  redis.call('DEL', lease)
  keep(id, h)
  return freed({ 'STOPPED', error, told })
end
