-- Comes before every script that changes tasks.
--
-- A record is JSON text: a head of the fields that change, written only here and when the task is created,
-- and a tail that never changes and begins with the id. Only the head is decoded; the tail is carried along
-- byte for byte. Strings escape their quotes, so the first `,"id":"<id>"` is where the tail begins.
--
-- Every script reads and checks first. What it will write without having read is checked by `typed`.
local TASKS, TTL, RESULTS, HISTORY, OUTBOX = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local DUE, QUEUES, CREATED, PAUSED = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local QUEUE_KEYS = 14

local function int(n) return string.format('%.0f', n) end
local function score(ms) return string.format('%.3f', ms / 1000) end

-- Hands a list over in parts that fit into one command. Pairs stay together.
local function in_parts(list, take)
  for at = 1, #list, 1000 do
    take({ unpack(list, at, math.min(at + 999, #list)) })
  end
end

local function queue(n)
  local at = 10 + (n - 1) * QUEUE_KEYS
  local q = { pending = {} }
  for p = 0, 9 do q.pending[p] = KEYS[at + p] end
  q.inprog, q.leases, q.delayed, q.dlq = KEYS[at + 10], KEYS[at + 11], KEYS[at + 12], KEYS[at + 13]
  return q
end

local function ready(q)
  local n = 0
  for p = 0, 9 do n = n + redis.call('LLEN', q.pending[p]) end
  return n
end

local function typed(key, wanted)
  local found = redis.call('TYPE', key)
  found = found.ok or found
  return found == 'none' or found == wanted
end

-- The first key that is of another type than the scripts need.
local function misused(q)
  local wanted = {
    { TTL, 'zset' }, { RESULTS, 'hash' }, { HISTORY, 'hash' }, { OUTBOX, 'hash' }, { DUE, 'zset' },
    { CREATED, 'zset' }, { q.inprog, 'set' }, { q.leases, 'zset' }, { q.delayed, 'zset' }, { q.dlq, 'set' },
  }
  for _, pair in ipairs(wanted) do
    if not typed(pair[1], pair[2]) then return pair[1] end
  end
end

local function parse(text, id)
  if not text then return nil end
  local at = string.find(text, ',"id":"' .. id .. '"', 1, true)
  if not at then return nil end
  local ok, head = pcall(cjson.decode, string.sub(text, 1, at - 1) .. '}')
  if not ok or type(head) ~= 'table' then return nil end
  head.tail = string.sub(text, at)
  head.attempts, head.refunds = head.attempts or 0, head.refunds or 0
  head.updatedAtMs = head.updatedAtMs or 0
  return head
end

local function find(id) return parse(redis.call('HGET', TASKS, id), id) end

local STRINGS = { 'workerId', 'ownerSub', 'leaseUntil', 'error', 'resultKey', 'updatedAt' }
local NUMBERS = {
  'attempts', 'refunds', 'maxAttempts', 'leaseUntilMs', 'claimedAtMs', 'visibleAtMs', 'seq', 'updatedAtMs',
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
  return table.concat(out)
end

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
  h.leaseUntilMs, h.claimedAtMs = 0, 0
end

local function free(q, id, lease)
  redis.call('SREM', q.inprog, id)
  redis.call('ZREM', q.leases, id)
  redis.call('DEL', lease)
end

-- Ends the running attempt in the history.
local function remember(id, h, now, outcome, error)
  if not h.claimedAtMs or h.claimedAtMs == 0 then return end
  local kept = redis.call('HGET', HISTORY, id)
  local list = kept and cjson.decode(kept) or {}
  local ended = now
  if ended < h.claimedAtMs then ended = h.claimedAtMs end
  local entry = { attempt = h.attempts, workerId = h.workerId or '', claimedAt = h.claimedAtMs }
  entry.endedAt, entry.outcome = ended, outcome
  if error ~= '' then entry.error = error end
  list[#list + 1] = entry
  while #list > 20 do table.remove(list, 1) end
  redis.call('HSET', HISTORY, id, cjson.encode(list))
end

-- The seconds to wait after the n-th counted attempt: `ranges` is "low:high,low:high,...", the last one goes
-- on for ever. `draw` is in [0, 1).
local function delay_of(ranges, n, draw)
  if n < 1 then n = 1 end
  local low, high, i = 0, 0, 0
  for l, h in string.gmatch(ranges, '(%d+):(%d+)') do
    low, high, i = tonumber(l), tonumber(h), i + 1
    if i == n then break end
  end
  return low + math.floor(draw * (high - low + 1))
end

local function make_ready(q, id, h, seq)
  place(h, 'PENDING', 'PENDING_LIST')
  h.seq = seq
  redis.call('LPUSH', q.pending[priority(h)], id)
end

local function make_delayed(q, id, h, until_ms)
  place(h, 'PENDING', 'DELAYED_ZSET')
  h.visibleAtMs = until_ms
  redis.call('ZADD', q.delayed, score(until_ms), id)
end

local function call_back(delivery, text, now)
  if delivery == '' then return end
  redis.call('HSET', OUTBOX, delivery, text)
  redis.call('ZADD', DUE, int(now), delivery)
end

-- Writes the end of a task: `ends` is the score of its retention.
local function finish(id, h, status, where, result, ends)
  place(h, status, where)
  clear_lease(h)
  h.resultKey = 'codeq:results'
  redis.call('HSET', RESULTS, id, result)
  redis.call('ZADD', TTL, ends, id)
end
