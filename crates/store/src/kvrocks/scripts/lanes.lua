-- What restricts a queue: its policy, its lanes, and how far their limits are used up. After policy.lua.
--
-- A queue without policy in which no task has a lane has none of these keys; that costs one look at `Q:flow`.
--   Q:flow       fields `rule` (the policy as scripts need it), `lanes` and `holds` (how many there are), `served` (the
--                pass of the lane served last), `plain` (that of the tasks without a lane); what Rust keeps of a policy
--   Q:overrides  what of the policy is for one lane
--   Q:lanes      of each lane with live tasks "ready running live last pass place"; the place is `c` and the number of
--                its head where the lane is claimable, `u` and an instant where only time holds it back, else `-`
--   Q:ready      ready tasks of lanes: lane, \1, their order in it, id; all of one score, so in the order of their bytes
--   Q:order      live tasks of ordered lanes, in the same way
--   Q:turns      claimable lanes by their pass: number of the head and lane
--   Q:closed     lanes by the instant at which they may open
--   Q:counts     ready tasks in lanes by priority; `c` those of claimable lanes
--   Q:rates      how far rates are used up, `Q:holds` until when nacks hold back: `q` the queue, `:lane` a lane
-- The running tasks of a queue are `Q:inprog`; those of a lane change in the script that changes the record.
--
-- All of it is made only where it is used.
local function make_lanes()
  local L = {}
  local KEYS_OF_LANES = {
    'flow', 'overrides', 'lanes', 'ready', 'order', 'turns', 'closed', 'counts', 'rates', 'holds',
  }

  local function number(text) return string.format('%016.0f', text) end

  -- The keys of a queue that few have.
  local function keys(q)
    if not q.lanes then
      for _, name in ipairs(KEYS_OF_LANES) do q[name] = q.base .. ':' .. name end
    end
    return q
  end

  local function flow(q)
    if q.f then return q.f end
    keys(q)
    local read = redis.call('HMGET', q.flow, 'rule', 'lanes', 'holds', 'served', 'plain')
    if q.rule == nil then q.rule = read[1] and cjson.decode(read[1]) end
    local pass, is_in = string.match(read[5] or '', '^(%S+) (%d)$')
    q.f = {
      rule = q.rule or {}, has_holds = read[3], served = tonumber(read[4] or 0),
      plain = tonumber(pass or 0), is_plain_in = is_in == '1', limits = {}, rates = {},
    }
    return q.f
  end
  L.flow = flow

  local function limits(q, name)
    local f = flow(q)
    local own = f.limits[name]
    if own then return own end
    local rule, text = f.rule, nil
    if rule.o then text = redis.call('HGET', q.overrides, name) end
    own = text and cjson.decode(text) or {}
    own.w = own.w or 1
    if name == '' then
      own.c, own.r = nil, nil
    else
      own.c, own.r, own.is_ordered = own.c or rule.lc, own.r or rule.lr, rule.ordered
    end
    f.limits[name] = own
    return own
  end

  -- How far a rate is used up: the instant at which the next start would be due, in ms and ns.
  local function rate_state(q, field)
    local known = flow(q).rates[field]
    if known then return known end
    local ms, ns = string.match(redis.call('HGET', q.rates, field) or '', '^(%d+) (%d+)$')
    known = { ms = tonumber(ms or 0), ns = tonumber(ns or 0) }
    q.f.rates[field] = known
    return known
  end

  -- The first instant at which a rate (interval in ns, burst) allows a start.
  local function rate_opens(rate, state)
    return state.ms + math.floor((state.ns - rate[1] * (rate[2] - 1)) / 1000000)
  end

  local function rate_start(q, field, rate, at)
    local state = rate_state(q, field)
    if state.ms < at then state.ms, state.ns = at, 0 end
    local ns = state.ns + rate[1]
    state.ms, state.ns = state.ms + math.floor(ns / 1000000), ns % 1000000
    redis.call('HSET', q.rates, field, int(state.ms) .. ' ' .. int(state.ns))
  end

  -- When a lane, or the queue itself, lets something start; nothing if it always does.
  local function opens_at(q, field, rate)
    local opens = rate and rate_opens(rate, rate_state(q, field))
    local hold = flow(q).has_holds and tonumber(redis.call('HGET', q.holds, field) or '')
    if hold and hold > (opens or 0) then return hold end
    return opens
  end

  local function load(q, name)
    if q.cache and q.cache[name] then return q.cache[name] end
    local text = redis.call('HGET', keys(q).lanes, name)
    if not text then return nil end
    local ready, running, live, last, pass, place = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S+)$')
    local lane = {
      name = name, ready = tonumber(ready), running = tonumber(running), live = tonumber(live), last = tonumber(last),
      pass = tonumber(pass), place = place,
    }
    if string.sub(place, 1, 1) == 'c' then lane.turn = lane.pass end
    lane.counted = lane.turn and lane.ready or 0
    if q.cache then q.cache[name] = lane end
    return lane
  end
  L.load = load

  -- Numbers grow, and those of different lanes can be compared.
  local function next_number(lane)
    local time = redis.call('TIME')
    lane.last = math.max(lane.last + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]))
    return lane.last
  end

  -- What stands for a task in `ready` and `order`.
  local function entry(name, id, p, seq, accepted)
    local order = accepted and number(accepted) or (9 - p) .. number(seq)
    return name .. '\1' .. order .. id
  end

  local function first_of(key, name)
    return redis.call('ZRANGEBYLEX', key, '[' .. name .. '\1', '(' .. name .. '\2', 'LIMIT', 0, 1)[1]
  end

  -- The entry of the task that comes next in a lane, whatever limits say.
  local function head_of(q, lane)
    if not limits(q, lane.name).is_ordered then return first_of(q.ready, lane.name) end
    local oldest = first_of(q.order, lane.name)
    return oldest and redis.call('ZSCORE', q.ready, oldest) and oldest
  end

  -- Where a lane belongs, and the entry of its head if that may start. Without the time a lane that is open stays so.
  local function wanted(q, lane, at)
    local own = limits(q, lane.name)
    if lane.ready <= 0 or (own.c and lane.running >= own.c) then return '-' end
    local head = head_of(q, lane)
    if not head then return '-' end
    local opens = opens_at(q, ':' .. lane.name, own.r)
    local is_open = string.sub(lane.place, 1, 1) == 'c'
    if opens and ((at and opens > at) or (not at and not is_open)) then return 'u' .. int(opens) end
    return 'c' .. string.sub(head, -52, -37), head
  end

  local function take_out(q, lane)
    local kind = string.sub(lane.place, 1, 1)
    if kind == 'c' then
      redis.call('ZREM', q.turns, string.sub(lane.place, 2) .. lane.name)
    elseif kind == 'u' then
      redis.call('ZREM', q.closed, lane.name)
    end
  end

  local function count(q, field, by)
    if by ~= 0 and redis.call('HINCRBY', q.counts, field, by) <= 0 then redis.call('HDEL', q.counts, field) end
  end

  local function set_lanes(q)
    local left = redis.call('HLEN', q.lanes)
    if left > 0 then return redis.call('HSET', q.flow, 'lanes', left) end
    redis.call('HDEL', q.flow, 'lanes', 'served', 'plain')
    if q.f then q.f.served, q.f.plain, q.f.is_plain_in, q.f.is_dirty = 0, 0, false, false end
  end

  -- A lane without tasks: what is used up of its limits stays until it restricts nothing any more.
  local function forget(q, lane)
    take_out(q, lane)
    count(q, 'c', -lane.counted)
    redis.call('HDEL', q.lanes, lane.name)
    if q.cache then q.cache[lane.name] = nil end
    local field = ':' .. lane.name
    local stays = 0
    if limits(q, lane.name).r then
      local state = rate_state(q, field)
      stays = state.ms + (state.ns > 0 and 1 or 0)
    end
    local hold = flow(q).has_holds and tonumber(redis.call('HGET', q.holds, field) or '') or 0
    if math.max(stays, hold) > 0 then redis.call('ZADD', q.closed, int(math.max(stays, hold)), lane.name) end
    set_lanes(q)
  end

  -- Puts a lane where it belongs, and keeps it. Gives the entry of its head if that may start.
  local function put(q, lane, at)
    if lane.live <= 0 then return forget(q, lane) end
    local place, head = wanted(q, lane, at)
    local is_claimable = string.sub(place, 1, 1) == 'c'
    if is_claimable and string.sub(lane.place, 1, 1) ~= 'c' then
      lane.pass = math.max(lane.pass, flow(q).served + 1 / limits(q, lane.name).w)
      has_freed = true
    end
    if place ~= lane.place then take_out(q, lane) end
    if is_claimable and (place ~= lane.place or lane.pass ~= lane.turn) then
      redis.call('ZADD', q.turns, string.format('%.17g', lane.pass), string.sub(place, 2) .. lane.name)
      lane.turn = lane.pass
    elseif place ~= lane.place and string.sub(place, 1, 1) == 'u' then
      redis.call('ZADD', q.closed, string.sub(place, 2), lane.name)
      -- Whoever claims next looks whether its time has come.
      if not at then has_freed = true end
    end
    if not is_claimable then lane.turn = nil end
    local counted = is_claimable and lane.ready or 0
    count(q, 'c', counted - lane.counted)
    lane.place, lane.counted, lane.head, lane.seen = place, counted, head, at
    if q.cache then
      lane.is_dirty = true
    else
      L.write(q, { lane })
    end
    return head
  end
  L.put = put

  function L.write(q, list)
    local fields = {}
    for _, lane in ipairs(list) do
      local pass = string.format('%.17g', lane.pass)
      local numbers = { int(lane.ready), int(lane.running), int(lane.live), int(lane.last), pass, lane.place }
      fields[#fields + 1], fields[#fields + 2] = lane.name, table.concat(numbers, ' ')
    end
    in_parts(fields, function(part) redis.call('HSET', q.lanes, unpack(part)) end)
  end

  -- From here on, changes of lanes are kept until `flush`.
  function L.defer(q) q.cache = {} end

  function L.flush(q)
    local dirty = {}
    for _, lane in pairs(q.cache or {}) do
      if lane.is_dirty then dirty[#dirty + 1] = lane end
    end
    if #dirty > 0 then L.write(q, dirty) end
    local f = q.f
    if f and f.is_dirty then
      local plain = string.format('%.17g', f.plain) .. (f.is_plain_in and ' 1' or ' 0')
      redis.call('HSET', q.flow, 'served', string.format('%.17g', f.served), 'plain', plain)
    end
  end

  -- A live task comes into a lane. `again`: it has been accepted before, by that number.
  function L.join(q, name, id, again)
    local lane = load(q, name)
    local is_new = not lane
    if is_new then
      lane = { name = name, ready = 0, running = 0, live = 0, last = 0, pass = 0, place = '-', counted = 0 }
      flow(q)
      if q.cache then q.cache[name] = lane end
    end
    lane.live = lane.live + 1
    local accepted
    if limits(q, name).is_ordered then
      accepted = again or next_number(lane)
      redis.call('ZADD', q.order, 0, entry(name, id, 0, 0, accepted))
    end
    L.write(q, { lane })
    if is_new then set_lanes(q) end
    return accepted
  end

  function L.leave(q, name, id, accepted)
    local lane = load(q, name)
    if not lane then return end
    lane.live = lane.live - 1
    if accepted then redis.call('ZREM', q.order, entry(name, id, 0, 0, accepted)) end
    put(q, lane)
  end

  -- A task of a lane becomes ready. Gives its number.
  function L.push(q, name, id, p, accepted)
    if not load(q, name) then L.join(q, name, id, accepted) end
    local lane = load(q, name)
    local seq = next_number(lane)
    redis.call('ZADD', q.ready, 0, entry(name, id, p, seq, accepted))
    lane.ready = lane.ready + 1
    count(q, p, 1)
    put(q, lane)
    return seq
  end

  function L.pull(q, name, id, p, seq, accepted)
    local lane = load(q, name)
    if not lane or redis.call('ZREM', q.ready, entry(name, id, p, seq, accepted)) == 0 then return end
    lane.ready = lane.ready - 1
    count(q, p, -1)
    put(q, lane)
  end

  -- A slot of a lane is taken or given back.
  function L.run(q, name, by)
    local lane = load(q, name)
    if not lane then return end
    lane.running = math.max(lane.running + by, 0)
    put(q, lane)
  end

  -- The head of a lane starts.
  function L.start(q, lane, head, p, at)
    local f, own = flow(q), limits(q, lane.name)
    redis.call('ZREM', q.ready, head)
    lane.ready, lane.running = lane.ready - 1, lane.running + 1
    count(q, p, -1)
    f.served = math.max(f.served, lane.pass)
    f.is_dirty = true
    lane.pass = lane.pass + 1 / own.w
    if own.r then rate_start(q, ':' .. lane.name, own.r, at) end
    put(q, lane, at)
  end

  -- What was started was refused in the end; starts used up of rates are not given back.
  function L.unstart(q, lane, head, p)
    redis.call('ZADD', q.ready, 0, head)
    lane.ready, lane.running = lane.ready + 1, lane.running - 1
    count(q, p, 1)
    put(q, lane)
  end

  -- A task of the queue has started: `is_plain` one without a lane.
  function L.started(q, is_plain, at)
    local f = flow(q)
    if f.rule.r then rate_start(q, 'q', f.rule.r, at) end
    if is_plain then
      f.served, f.is_dirty = math.max(f.served, f.plain), true
      f.plain = f.plain + 1 / limits(q, '').w
    end
  end

  -- Whether the queue itself lets nothing start now, and until when if only for some time.
  function L.blocked(q, at)
    local rule = flow(q).rule
    if rule.c and redis.call('SCARD', q.inprog) >= rule.c then return true end
    local opens = opens_at(q, 'q', rule.r)
    if opens and opens > at then return true, opens end
    if q.f.has_holds then L.unhold(q, 'q', at) end
  end

  -- Forgets a hold that is over.
  function L.unhold(q, field, at)
    local hold = tonumber(redis.call('HGET', q.holds, field) or '')
    if hold and hold <= at then
      redis.call('HDEL', q.holds, field)
      L.set_holds(q)
    end
  end

  function L.set_holds(q)
    local left = redis.call('HLEN', keys(q).holds)
    if left > 0 then
      redis.call('HSET', q.flow, 'holds', left)
    else
      redis.call('HDEL', q.flow, 'holds')
    end
    if q.f then q.f.has_holds = left > 0 end
  end

  -- Nothing of a lane, or of the queue (`name` nil), starts before an instant.
  function L.hold(q, name, until_ms, at)
    local field = name and ':' .. name or 'q'
    flow(q)
    local hold = tonumber(redis.call('HGET', q.holds, field) or 0)
    if hold >= until_ms then return end
    redis.call('HSET', q.holds, field, int(until_ms))
    L.set_holds(q)
    local lane = name and load(q, name)
    if lane then put(q, lane, at) end
  end

  -- Opens lanes whose time has come, up to a bound. Gives when the next one opens.
  function L.open(q, at)
    local due = redis.call('ZRANGEBYSCORE', q.closed, '-inf', int(at), 'LIMIT', 0, 100)
    for _, name in ipairs(due) do
      if flow(q).has_holds then L.unhold(q, ':' .. name, at) end
      local lane = load(q, name)
      if lane and string.sub(lane.place, 1, 1) == 'u' then
        put(q, lane, at)
      else
        redis.call('ZREM', q.closed, name)
        -- Nobody is in it, and what was used up of its rate restricts nothing any more.
        if not lane then redis.call('HDEL', q.rates, ':' .. name) end
      end
    end
    return tonumber(redis.call('ZRANGE', q.closed, 0, 0, 'WITHSCORES')[2])
  end

  -- The lane that comes next, the number of its head and its pass.
  function L.first(q)
    local first = redis.call('ZRANGE', q.turns, 0, 0, 'WITHSCORES')
    if not first[1] then return nil end
    return string.sub(first[1], 17), tonumber(string.sub(first[1], 1, 16)), tonumber(first[2]), first[1]
  end

  -- The pass of the tasks without a lane, which take part if there are any and nothing holds them back.
  function L.plain(q, has_head)
    local f = flow(q)
    if has_head ~= f.is_plain_in then
      if has_head then f.plain = math.max(f.plain, f.served + 1 / limits(q, '').w) end
      f.is_plain_in, f.is_dirty = has_head, true
    end
    return f.plain
  end

  -- When tasks without a lane may start, if that is not now.
  function L.plain_opens(q, at)
    local opens = flow(q).has_holds and opens_at(q, ':')
    if opens and opens > at then return opens end
    if opens then L.unhold(q, ':', at) end
  end

  -- Entries of ready tasks in lanes, lane by lane. An id is their end.
  function L.some_ready(q, most) return redis.call('ZRANGE', keys(q).ready, 0, most - 1) end

  -- Drops the entry of a task that is not ready, which only foreign writers leave.
  function L.drop(q, head)
    local name, order = string.match(string.sub(head, 1, -37), '^(.*)\1(%d+)$')
    redis.call('ZREM', keys(q).ready, head)
    redis.call('ZREM', q.order, head)
    if #order == 17 then count(q, 9 - tonumber(string.sub(order, 1, 1)), -1) end
    local lane = load(q, name)
    if not lane then return end
    lane.ready, lane.live = math.max(lane.ready - 1, 0), lane.live - 1
    put(q, lane)
  end

  -- Ready tasks in lanes.
  function L.ready(q)
    local total, counts = 0, redis.call('HGETALL', keys(q).counts)
    for n = 1, #counts, 2 do
      if counts[n] ~= 'c' then total = total + tonumber(counts[n + 1]) end
    end
    return total
  end

  return L
end

local lanes_are
local function lanes()
  if not lanes_are then lanes_are = make_lanes() end
  return lanes_are
end
