-- Ends that no worker reports: a cancel, a time by which nobody has claimed a task. After turn.lua.
--
-- `by` is what they need: now and its stamp, whether there are callbacks, the stamp and the first part of the ids of
-- these, and the score of the retention of failed tasks.
local deliveries = 0

-- Reads it from ARGV, where all but the time stands together.
local function endings(now, stamp, at)
  return {
    now = now, stamp = stamp, callbacks = ARGV[at] == '1', told_at = ARGV[at + 1], prefix = ARGV[at + 2],
    ends = ARGV[at + 3],
  }
end

-- Slashes are left as they are, as everywhere else.
local function quoted(text) return (string.gsub(cjson.encode(text), '\\/', '/')) end

-- The first bytes of a text, whole characters.
local function cut(text, most)
  if #text <= most then return text end
  while most > 0 and math.floor(string.byte(text, most + 1) / 64) == 2 do most = most - 1 end
  return string.sub(text, 1, most)
end

local function failure_text(by, id, error, reason)
  return '{"taskId":"' .. id .. '","status":"FAILED","error":' .. quoted(error) .. ',"failureReason":"' .. reason
    .. '","completedAt":"' .. by.stamp .. '"}'
end

-- Puts the callback of a task that fails into the outbox.
local function call_failure_back(steps, by, id, h, error)
  if not by.callbacks then return end
  local told = cjson.decode(summary(h))
  if not told.webhook then return end
  deliveries = deliveries + 1
  local delivery = by.prefix .. string.format('%08x', deliveries)
  local body = '{"taskId":"' .. id .. '","eventType":' .. quoted(told.command)
    .. ',"status":"FAILED","result":null,"error":' .. quoted(error) .. ',"artifacts":[],"completedAt":'
    .. quoted(by.told_at) .. '}'
  local text = '{"attempts":0,"id":"' .. delivery .. '","taskId":"' .. id .. '","tenantId":' .. quoted(told.tenantId)
    .. ',"url":' .. quoted(told.webhook) .. ',"body":' .. quoted(body) .. ',"createdAt":"' .. by.stamp .. '"}'
  call_back(steps, delivery, text, by.now)
end

-- The steps that end a live task as cancelled. Gives its error.
local function cancel_steps(steps, by, q, id, h, reason)
  local error = reason and reason ~= '' and 'CANCELLED: ' .. reason or 'CANCELLED'
  if h.status == 'IN_PROGRESS' then
    free(steps, q, id, h)
    remember(steps, id, h, by.now, 'cancelled', cut(error, 512))
  else
    withdraw(steps, q, id, h)
  end
  touch(h, by.now, by.stamp)
  h.error, h.cancelled = error, true
  call_failure_back(steps, by, id, h, error)
  finish(steps, id, h, 'FAILED', 'NONE', failure_text(by, id, error, 'CANCELLED'), by.ends)
  return error
end

-- Ends a task that waits and that nobody has claimed in time. Gives what is told of it, or nothing if it was refused.
local function expire_waiting(by, q, id, h)
  local told, steps = summary_read(h), {}
  withdraw(steps, q, id, h)
  touch(h, by.now, by.stamp)
  h.error = 'EXPIRED'
  call_failure_back(steps, by, id, h, 'EXPIRED')
  finish(steps, id, h, 'FAILED', 'NONE', failure_text(by, id, 'EXPIRED', 'EXPIRED'), by.ends)
  if attempt(steps) then return nil end
  keep(id, h)
  return { told, 'EXPIRED', 'EXPIRED' }
end
