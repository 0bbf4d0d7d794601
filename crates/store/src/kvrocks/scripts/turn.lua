-- What ends an attempt or begins one anew. After record.lua. Each function adds to `steps` what `attempt` is to do.
local function free(steps, q, id, h)
  h.at = q
  steps[#steps + 1] = { { 'SREM', q.inprog, id }, { 'SADD', q.inprog, id } }
  steps[#steps + 1] = { { 'ZREM', q.leases, id }, { 'ZADD', q.leases, int(acts_at(h)), id } }
  -- Progress is of the attempt that runs, and may get lost.
  if has_note(h, PROGRESS) then
    steps[#steps + 1] = { { 'HDEL', P .. 'progress', id } }
    drop_note(h, PROGRESS)
  end
  if h.lane or h.slot then free_slot(steps, q, h) end
end

-- Takes a task that waits out of its place. The id of a ready one stays in its list until somebody pops it: a list is
-- never searched.
local function withdraw(steps, q, id, h)
  h.at = q
  if expires_at(h) then
    steps[#steps + 1] = { { 'ZREM', q.leases, id }, { 'ZADD', q.leases, int(expires_at(h)), id } }
  end
  if h.links and h.links.held then
    let_go(steps, q, id, h)
  elseif h.lastKnownLocation == 'DELAYED_ZSET' then
    steps[#steps + 1] = { { 'ZREM', q.delayed, id }, { 'ZADD', q.delayed, score(h.visibleAtMs or 0), id } }
  elseif h.lane then
    pull_ready(steps, q, id, h)
  else
    local p = priority(h)
    steps[#steps + 1] = { { 'HINCRBY', q.stale, p, 1 }, { 'HINCRBY', q.stale, p, -1 } }
  end
end

-- The task that has a unique key; a key of another type is nobody's.
local function holder_of(name)
  local id = redis.pcall('GET', P .. 'unique:' .. name)
  return type(id) == 'string' and id or nil
end

-- Whether the task that a unique key names has it.
local function still_holds(h, now)
  local to = h and h.unique and h.unique.to
  if type(to) == 'number' then return to > now end
  return to and is_live(h)
end

-- Frees the unique key of a task that has come to this point: 'started', or 'ended'. A key that is taken for some time
-- is free when that is over.
local function release(steps, id, h, point)
  local rule = h.unique
  if not rule or type(rule.to) == 'number' or (point == 'started' and rule.to ~= 'started') then return end
  local key = P .. 'unique:' .. rule.name
  if holder_of(rule.name) == id then steps[#steps + 1] = { { 'DEL', key }, { 'SET', key, id } } end
end

-- Keeps what a worker leaves for the next attempt. Comes last among the steps, because it is not undone.
local function leave_checkpoint(steps, id, h, text)
  if text == '' then return end
  steps[#steps + 1] = { { 'HSET', P .. 'checkpoints', id, text } }
  add_note(h, CHECKPOINT)
end

-- The history of a task with its running attempt ended. A first attempt has none before it.
local function ended_attempt(id, h, now, outcome, error)
  local ended = now
  if ended < h.claimedAtMs then ended = h.claimedAtMs end
  local entry = { attempt = h.attempts, workerId = h.workerId or '', claimedAt = h.claimedAtMs }
  entry.endedAt, entry.outcome = ended, outcome
  if error ~= '' then entry.error = error end
  local kept = h.attempts > 1 and redis.call('HGET', P .. 'history', id)
  local list = kept and cjson.decode(kept) or {}
  list[#list + 1] = entry
  while #list > 20 do table.remove(list, 1) end
  return cjson.encode(list), kept
end

local function remember(steps, id, h, now, outcome, error)
  if not h.claimedAtMs or h.claimedAtMs == 0 then return end
  local text, kept = ended_attempt(id, h, now, outcome, error)
  local undo = kept and { 'HSET', P .. 'history', id, kept } or { 'HDEL', P .. 'history', id }
  -- An entry that was there is overwritten, which counts as no change.
  steps[#steps + 1] = { { 'HSET', P .. 'history', id, text }, undo, always = true }
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

-- Gives the place of the push among the steps; `before_push` knows what its answer means.
local function make_ready(steps, q, id, h, seq)
  place(h, 'PENDING', 'PENDING_LIST')
  h.seq = seq
  if h.lane then
    push_ready(steps, q, id, h)
    return #steps
  end
  local list = q.list .. priority(h)
  steps[#steps + 1] = { { 'LPUSH', list, id }, { 'LPOP', list } }
  return #steps
end

local function make_delayed(steps, q, id, h, until_ms)
  place(h, 'PENDING', 'DELAYED_ZSET')
  h.visibleAtMs = until_ms
  steps[#steps + 1] = { { 'ZADD', q.delayed, score(until_ms), id }, { 'ZREM', q.delayed, id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(until_ms), q.name } }
end

local function call_back(steps, delivery, text, now)
  if delivery == '' then return end
  steps[#steps + 1] = { { 'HSET', P .. 'outbox', delivery, text }, { 'HDEL', P .. 'outbox', delivery } }
  steps[#steps + 1] = { { 'ZADD', P .. 'outbox:due', int(now), delivery }, { 'ZREM', P .. 'outbox:due', delivery } }
end

-- Writes the end of a task: `ends` is the score of its retention. Comes last among the steps.
local function finish(steps, id, h, status, where, result, ends)
  place(h, status, where)
  clear_lease(h)
  if h.lane then leave_lane(steps, h.at, id, h) end
  count_failed(steps, h.at, h, 1)
  ends = kept_until(h.at, h, status, where, ends)
  release(steps, id, h, 'ended')
  if h.links then end_links(steps, id, h, status) end
  -- A key that is taken for some time names a record.
  local to = h.unique and h.unique.to
  if type(to) == 'number' and ends ~= '+inf' and tonumber(ends) * 1000 < to then ends = score(to) end
  h.resultKey = 'codeq:results'
  steps[#steps + 1] = { { 'HSET', P .. 'results', id, result }, { 'HDEL', P .. 'results', id } }
  steps[#steps + 1] = { { 'ZADD', P .. 'tasks:ttl', ends, id } }
  if status == 'COMPLETED' and has_note(h, CHECKPOINT) then
    steps[#steps + 1] = { { 'HDEL', P .. 'checkpoints', id } }
    drop_note(h, CHECKPOINT)
  end
end

local function make_dead(steps, q, id, h, result, ends)
  steps[#steps + 1] = { { 'SADD', q.dlq, id }, { 'SREM', q.dlq, id } }
  finish(steps, id, h, 'FAILED', 'DLQ_SET', result, ends)
end
