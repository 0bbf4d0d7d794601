-- Records, for every script that reads or changes tasks. After base.lua.
--
-- A record is JSON text: a head of the fields that change, written only here and when the task is created,
-- and a tail that never changes and begins with the id. Only the head is decoded; the tail is carried along
-- byte for byte. Strings escape their quotes, so the first `,"id":"<id>"` is where the tail begins.
local function parse(text, id)
  if not text then return nil end
  local at = string.find(text, ',"id":"' .. id .. '"', 1, true)
  if not at then return nil end
  local ok, head = pcall(cjson.decode, string.sub(text, 1, at - 1) .. '}')
  if not ok or type(head) ~= 'table' then return nil end
  head.text, head.tail = text, string.sub(text, at)
  head.attempts, head.refunds = head.attempts or 0, head.refunds or 0
  head.updatedAtMs = head.updatedAtMs or 0
  return head
end

local function find(id) return parse(redis.call('HGET', TASKS, id), id) end

local STRINGS = { 'workerId', 'ownerSub', 'leaseUntil', 'error', 'resultKey', 'updatedAt', 'lane' }
local NUMBERS = {
  'attempts', 'refunds', 'maxAttempts', 'leaseUntilMs', 'claimedAtMs', 'visibleAtMs', 'seq', 'updatedAtMs',
  'expiresAtMs', 'maxRunMs', 'notes', 'accepted', 'slot',
}

local function head_text(h)
  local out = { '{"status":"', h.status, '","lastKnownLocation":"', h.lastKnownLocation, '"' }
  for _, name in ipairs(STRINGS) do
    local value = h[name]
    if value and value ~= '' then out[#out + 1] = ',"' .. name .. '":' .. cjson.encode(value) end
  end
  for _, name in ipairs(NUMBERS) do
    local value = h[name]
    if value and value ~= 0 then out[#out + 1] = ',"' .. name .. '":' .. int(value) end
  end
  if h.cancelled then out[#out + 1] = ',"cancelled":true' end
  if h.unique then out[#out + 1] = ',"unique":' .. cjson.encode(h.unique) end
  if h.cancel then out[#out + 1] = ',"cancel":' .. cjson.encode(h.cancel) end
  if h.links then out[#out + 1] = ',"links":' .. cjson.encode(h.links) end
  return table.concat(out)
end

-- The hash of tasks was read before, so this is not refused.
local function keep(id, h)
  local text = head_text(h) .. h.tail
  redis.call('HSET', TASKS, id, text)
  return text
end

-- The record without its payload and what stands behind it. `head`: its text, where it is at hand.
local function summary(h, head)
  local at = string.find(h.tail, ',"payload":', 1, true)
  return (head or head_text(h)) .. string.sub(h.tail, 1, (at or #h.tail) - 1) .. '}'
end

-- The same of the record as it was read.
local function summary_read(h)
  local at = string.find(h.text, ',"payload":', #h.text - #h.tail + 1, true)
  return at and string.sub(h.text, 1, at - 1) .. '}' or h.text
end

-- A number of the tail, or 0. Found as plain text: a pattern that is not anchored is tried at every byte.
local function counted(h, name)
  local _, at = string.find(h.tail, name, 1, true)
  return at and tonumber(string.match(h.tail, '^%d+', at + 1)) or 0
end

local function command(h) return string.match(h.tail, '"command":"([^"]*)"') or '' end
local function priority(h) return counted(h, '"priority":') end
local function created(h) return counted(h, '"createdAtMs":') end
-- The order of creation within a millisecond.
local function number(h) return counted(h, '"createdNo":') end

-- Whether the text directly behind the id is the given one: the tenant.
local function belongs(h, tenant) return string.sub(h.tail, 45, 44 + #tenant) == tenant end

local function is_live(h) return h.status == 'PENDING' or h.status == 'IN_PROGRESS' end

-- `notes` says what is kept beside the record: a checkpoint, progress, or both.
local CHECKPOINT, PROGRESS = 1, 2
local function has_note(h, note) return math.floor((h.notes or 0) / note) % 2 == 1 end
local function add_note(h, note)
  if not has_note(h, note) then h.notes = (h.notes or 0) + note end
end
local function drop_note(h, note)
  if has_note(h, note) then h.notes = h.notes - note end
end

-- When a task that nobody has claimed expires; its entry stands among the leases.
local function expires_at(h)
  if h.status == 'PENDING' and h.attempts == 0 and (h.expiresAtMs or 0) > 0 then return h.expiresAtMs end
end

-- When the store acts on a running task by itself: when its lease ends, or at the deadline of a cancel before that.
local function acts_at(h)
  local at = h.leaseUntilMs or 0
  if h.cancel and h.cancel.by < at then at = h.cancel.by end
  return at
end

-- A queue counts the tasks that failed, neither dead nor cancelled, as long as they are kept.
local function count_failed(steps, q, h, change)
  if h.status ~= 'FAILED' or h.cancelled or h.lastKnownLocation == 'DLQ_SET' then return end
  local key = P .. 'failed'
  steps[#steps + 1] = { { 'HINCRBY', key, q.name, change }, { 'HINCRBY', key, q.name, -change }, always = true }
end

-- Times of a record never go back.
local function touch(h, now, stamp)
  if now >= h.updatedAtMs then h.updatedAtMs, h.updatedAt = now, stamp end
end

local function place(h, status, where)
  h.status, h.lastKnownLocation = status, where
  h.visibleAtMs, h.seq = 0, 0
end

local function clear_lease(h)
  h.workerId, h.ownerSub, h.leaseUntil = '', '', ''
  h.leaseUntilMs, h.claimedAtMs, h.cancel, h.slot = 0, 0, nil, nil
end
