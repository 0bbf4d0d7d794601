-- What transitions of tasks mean for the lanes and the limits of their queue. After lanes.lua.

-- Tasks of a queue that are ready, delayed or held.
local function waiting(q)
  local total = redis.call('ZCARD', q.delayed) + redis.call('SCARD', q.held) + lanes().ready(q)
  for p = 0, 9 do total = total + redis.call('LLEN', q.list .. p) end
  for _, stale in ipairs(redis.call('HVALS', q.stale)) do total = total - tonumber(stale) end
  return total
end

-- How many more a producer may add, or nothing if there is no bound.
local function room_in(q, by)
  local rule = not by.is_tick and rule_of(q)
  return rule and rule.maxReady and rule.maxReady - waiting(q)
end

-- The steps of a task of a lane. Each sees what those before it have done.
local function lane_step(steps, run, undo) steps[#steps + 1] = { { 'lane', 'lanes' }, run = run, undo = undo } end

-- A running task gives its slot back.
local function free_slot(steps, q, h)
  local name, rule = h.lane, h.slot and rule_of(q)
  if name then
    lane_step(steps, function() lanes().run(q, name, -1) end, function() lanes().run(q, name, 1) end)
  end
  if rule and rule.c then
    lane_step(steps, function() has_freed = has_freed or redis.call('SCARD', q.inprog) + 1 >= rule.c end)
  end
end

-- A ready task of a lane is not ready any more.
local function pull_ready(steps, q, id, h)
  local name, p, seq, accepted = h.lane, priority(h), h.seq, h.accepted
  lane_step(steps, function() lanes().pull(q, name, id, p, seq, accepted) end, function()
    lanes().push(q, name, id, p, accepted)
  end)
end

-- A task of a lane becomes ready; the step's answer is how many were ready before.
local function push_ready(steps, q, id, h)
  local name, p = h.lane, priority(h)
  lane_step(steps, function()
    local before = ready_before(q, {})
    h.seq = lanes().push(q, name, id, p, h.accepted)
    return before
  end, function() lanes().pull(q, name, id, p, h.seq, h.accepted) end)
end

local function join_lane(steps, q, id, h)
  if not h.lane then return end
  local name = h.lane
  lane_step(steps, function() h.accepted = lanes().join(q, name, id) end, function()
    lanes().leave(q, name, id, h.accepted)
  end)
end

-- A task of a lane ends.
local function leave_lane(steps, q, id, h)
  local name, accepted = h.lane, h.accepted
  lane_step(steps, function() lanes().leave(q, name, id, accepted) end, function()
    lanes().join(q, name, id, accepted)
  end)
  h.accepted = nil
end

-- How many were ready before a task was made ready again; `answer` is that of its push.
local function before_push(q, h, answer, p)
  if h.lane then return answer end
  return ready_before(q, { [p or priority(h)] = { count = 1, length = answer } })
end

-- Nothing of the lane of a task, or of its queue, starts before an instant. Comes last among the steps.
local function hold_back(steps, q, h, what, until_ms, at)
  local name = what == 'lane' and (h.lane or '') or nil
  lane_step(steps, function() lanes().hold(q, name, until_ms, at) end)
end

-- New tasks of lanes come in; what their lanes say of them is written into their records.
local function take_lanes(steps, q, made)
  lane_step(steps, function()
    made.before = ready_before(q, {})
    for _, task in ipairs(made.laned) do
      local text = made.records[task.text]
      local at = string.find(text, ',"id":"' .. task.id .. '"', 1, true)
      local head, tail = string.sub(text, 1, at - 1), string.sub(text, at)
      task.accepted = lanes().join(q, task.lane, task.id)
      if task.accepted then head = head .. ',"accepted":' .. int(task.accepted) end
      if task.is_ready then
        task.seq = lanes().push(q, task.lane, task.id, task.p, task.accepted)
        head = string.gsub(head, '"seq":%d+', '"seq":' .. int(task.seq), 1)
      end
      made.records[task.text] = head .. tail
    end
  end, function()
    for _, task in ipairs(made.laned) do
      if task.seq then lanes().pull(q, task.lane, task.id, task.p, task.seq, task.accepted) end
      lanes().leave(q, task.lane, task.id, task.accepted)
    end
  end)
end

-- A task from elsewhere comes in, ready or not. Gives its record as it is kept here.
local function settle_in(steps, q, id, h, is_ready)
  local again = h.accepted
  local pushed
  lane_step(steps, function() h.accepted = lanes().join(q, h.lane, id, again) end, function()
    lanes().leave(q, h.lane, id, h.accepted)
  end)
  if is_ready then
    push_ready(steps, q, id, h)
    pushed = #steps
  end
  return pushed
end

-- A task that waits goes elsewhere.
local function depart_lane(q, id, h, where)
  if where == 'lanes' then lanes().pull(q, h.lane, id, priority(h), h.seq, h.accepted) end
  lanes().leave(q, h.lane, id, h.accepted)
end

-- A task that waits goes to another queue of the same keyspace. Gives its record.
local function shift_lane(from, to, id, h, where)
  depart_lane(from, id, h, where)
  h.accepted = lanes().join(to, h.lane, id, h.accepted)
  if where == 'lanes' then h.seq = lanes().push(to, h.lane, id, priority(h), h.accepted) end
  return head_text(h) .. h.tail
end
