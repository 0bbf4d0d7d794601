-- Claims in queues that something restricts. After due.lua.

-- Limits go by the clock of the server, where that one counts.
local limited_at
local function limit_time()
  if not limited_at then
    limited_at = now
    if ARGV[5] ~= 'caller' then
      local time = redis.call('TIME')
      limited_at = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
  end
  return limited_at
end

local function begin_flow(q)
  lanes().flow(q)
  lanes().defer(q)
  q.limited_at = limit_time()
  q.opens = lanes().open(q, q.limited_at)
end

-- Notes that the queue may have something at an instant.
local function opens_at(q, at)
  if at and at > q.limited_at and (not q.opens or at < q.opens) then q.opens = at end
end

local function is_blocked(q)
  local is_closed, at = lanes().blocked(q, q.limited_at)
  -- Lanes that open before the queue does are of no use.
  if is_closed then q.opens = at end
  return is_closed
end

-- The head of the tasks without a lane, if they may start, and their pass.
local function plain_turn(q, head)
  local at = lanes().plain_opens(q, q.limited_at)
  if at then
    opens_at(q, at)
    head = nil
  end
  return head, lanes().plain(q, head ~= nil)
end

-- The lane that comes before the tasks without one, and the entry of its head; nothing if there is none.
local function lane_turn(q, pass, seq)
  while true do
    local name, number, its_pass, member = lanes().first(q)
    if not name or (seq > 0 and (pass < its_pass or (pass == its_pass and seq < number))) then return nil end
    local lane = lanes().load(q, name)
    -- Limits may be others than when it was put there.
    local head = lane and (lane.seen and lane.head or lanes().put(q, lane, q.limited_at))
    if not lane then
      redis.call('ZREM', q.turns, member)
    elseif head then
      return lane, head
    else
      opens_at(q, tonumber(string.match(lane.place, '^u(%d+)') or ''))
    end
  end
end

-- Takes the head of a queue out of its lane instead of its list.
local function start_lane(steps, q)
  local lane, head, p, at = q.head.lane, q.head.entry, q.head.p, q.limited_at
  table.remove(steps, 1)
  lane_step(steps, function() lanes().start(q, lane, head, p, at) end, function() lanes().unstart(q, lane, head, p) end)
end

-- Keeps what has changed. Gives for queues that only time holds back their places and instants.
local function end_flows(open)
  local waits = {}
  for _, q in ipairs(open) do
    if q.cache then
      if q.opens then waits[#waits + 1], waits[#waits + 2] = q.place, int(q.opens) end
      lanes().flush(q)
    end
  end
  return waits
end
