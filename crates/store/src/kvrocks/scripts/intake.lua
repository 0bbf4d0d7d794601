-- Takes new tasks of a queue in. After stop.lua.
--
-- ARGV from `first`: tenant, text that follows an id, lower-case command, then of each task: id, record, priority,
-- visible-at score or '', retention score, created ms, idempotency key or '', that of the original server or '',
-- options or ''. Options are JSON: `expires` ms; `lane`; and of a task that is unique, which comes alone, `name` of the key,
-- `conflict`, `queue` and `home`, what the names of the queue and of those on the default shard are made of, and `only`
-- if the task is not to be made here unless its key is taken. What links tasks is told in joining.lua.
local FIELDS = 9

local function kept(key)
  local named = redis.call('GET', key)
  -- A task that has moved left a pointer, which is replied as it is.
  if named and string.sub(named, 1, 1) == '>' then return named, named end
  return named, named and redis.call('HGET', TASKS, named)
end

-- The record of an earlier create with the same key. `mine`: those of this call.
local function earlier(first, key, legacy, mine)
  if mine[key] then return mine[key] end
  local _, text = kept(key)
  if text or legacy == '' then return text end
  -- The key of the original server is not scoped; its task must be of this tenant and command.
  local named, old = kept(legacy)
  if old == named then return old end
  local h = old and parse(old, named)
  if h and belongs(h, ARGV[first + 1]) and string.lower(command(h)) == ARGV[first + 2] then return old end
end

-- The queue that holds a task: shards of one server share the records, which name them.
local function queue_of(h, name, home)
  local _, at = string.find(h.tail, ',"createdNo":', 1, true)
  local shard = at and string.match(h.tail, '^%d*,"shard":"([^"]*)"', at + 1)
  local suffix = home
  if shard then suffix = shard == 'default' and '' or ':s:' .. shard end
  return queue_at(P .. 'q:' .. name .. suffix)
end

-- Gives the holder of a key the payload and headers of a later create, unless it has been claimed. A delayed one gets
-- the later time, too, as far as it may be put off.
local function replace(steps, by, q, id, h, record, visible)
  local own, new = string.find(h.tail, ',"payload":', 1, true), string.find(record, ',"payload":', 1, true)
  if h.status ~= 'PENDING' or h.attempts > 0 or not own or not new then return false end
  h.tail = string.sub(h.tail, 1, own - 1) .. string.sub(record, new)
  if h.lastKnownLocation == 'DELAYED_ZSET' then
    local before, asked = score(h.visibleAtMs or 0), by.now
    if visible ~= '' then asked = math.floor(tonumber(visible) * 1000 + 0.5) end
    local wait = h.unique.wait
    if wait and created(h) + wait < asked then asked = created(h) + wait end
    h.visibleAtMs = asked
    steps[#steps + 1] = { { 'ZADD', q.delayed, score(asked), id }, { 'ZADD', q.delayed, before, id }, always = true }
    steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(asked), q.name } }
  end
  touch(h, by.now, by.stamp)
  return true
end

-- What a create comes to whose unique key may be taken: a reply, or nothing if the task is to be made. What has to
-- happen to the holder is added to the steps; `after` is done when they are. A holder's record is replied behind '=',
-- '-' stands for a key that is free. Gives as well whether no task is to be made, and whether one that waits in the
-- queue `into` ends.
local function settle_unique(steps, by, o, record, visible, into)
  local id = holder_of(o.name)
  local h = id and find(id)
  if not still_holds(h, by.now) then return o.only and '-' or nil end
  if o.conflict == 'keep' or (not is_live(h) and o.conflict == 'replace') then return '=' .. h.text end
  if not is_live(h) then return nil end
  if redis.call('HEXISTS', P .. 'moving', id) == 1 then return 'MOVING' end
  local told, is_running, q = summary_read(h), h.status == 'IN_PROGRESS', queue_of(h, o.queue, o.home)
  if o.conflict == 'replace' then
    if not replace(steps, by, q, id, h, record, visible) then return '=' .. h.text end
    return nil, function() return { '=' .. keep(id, h) } end, true
  end
  local error = cancel_steps(steps, by, q, id, h)
  return nil, function()
    if is_running then redis.call('DEL', P .. 'lease:' .. id) end
    keep(id, h)
    return { told, error }
  end, false, not is_running and q.name == into.name
end

local function add(list, a, b) list[#list + 1], list[#list + 2] = a, b end

-- Tasks to make, sorted by what is written of them.
local function gather(q, first, by, steps)
  local made = {
    ids = {}, records = {}, ends = {}, created = {}, delayed = {}, expiring = {}, keys = {}, pending = {}, replies = {},
    laned = {},
  }
  local all, mine, room = {}, {}, room_in(q, by)
  for at = first + 3, #ARGV, FIELDS do all[#all + 1] = ARGV[at] end
  local stored = redis.call('HMGET', TASKS, unpack(all))
  local function lower(ms) made.earliest = math.min(made.earliest or ms, ms) end
  for n, id in ipairs(all) do
    local at = first + 3 + (n - 1) * FIELDS
    local key, o = ARGV[at + 6], ARGV[at + 8] ~= '' and cjson.decode(ARGV[at + 8]) or {}
    local text, is_settled = stored[n] or (key ~= '' and earlier(first, key, ARGV[at + 7], mine)), false
    local given, frees = #steps, false
    if not text and o.name then
      text, made.after, is_settled, frees = settle_unique(steps, by, o, ARGV[at + 1], ARGV[at + 3], q)
    end
    text = text or refused_link(made, o, ARGV[first])
    if room and not text and not is_settled then
      room = room - (frees and 0 or 1)
      if room < 0 then
        -- A full queue; the holder of its unique key stays as it is, too.
        text, made.after = '%', nil
        for at = #steps, given + 1, -1 do steps[at] = nil end
      end
    end
    made.replies[n] = text or ''
    if not text and not is_settled then
      made.ids[#made.ids + 1] = id
      add(made.records, id, ARGV[at + 1])
      add(made.ends, ARGV[at + 4], id)
      add(made.created, ARGV[at + 5], id)
      local is_held = link_in(made, o, id, ARGV[at + 5])
      local is_ready = ARGV[at + 3] == '' and not is_held
      if o.lane then
        local own = { id = id, lane = o.lane, p = tonumber(ARGV[at + 2]), text = #made.records, is_ready = is_ready }
        table.insert(made.laned, own)
      end
      if is_held then
        -- It waits for others, and is in no list.
      elseif o.lane and is_ready then
        made.has_ready_in_lanes = true
      elseif ARGV[at + 3] == '' then
        local p = tonumber(ARGV[at + 2])
        made.pending[p] = made.pending[p] or {}
        table.insert(made.pending[p], id)
      else
        add(made.delayed, ARGV[at + 3], id)
        lower(math.floor(tonumber(ARGV[at + 3]) * 1000))
      end
      if o.expires then
        add(made.expiring, int(o.expires), id)
        lower(o.expires)
      end
      if key ~= '' then
        mine[key] = ARGV[at + 1]
        add(made.keys, key, id)
      end
      if o.name then add(made.keys, P .. 'unique:' .. o.name, id) end
    end
  end
  return made
end

-- The steps that store them. Gives those that push, by priority.
local function store_steps(steps, q, made)
  local pushes = {}
  if #made.laned > 0 then take_lanes(steps, q, made) end
  for p = 0, 9 do
    local ids = made.pending[p]
    if ids then
      steps[#steps + 1] = { { 'LPUSH', q.list .. p, unpack(ids) }, { 'LPOP', q.list .. p, #ids } }
      pushes[p] = { count = #ids, step = #steps }
    end
  end
  join_steps(steps, q, made)
  local function zadd(key, pairs)
    if #pairs > 0 then steps[#steps + 1] = { { 'ZADD', key, unpack(pairs) }, { 'ZREM', key, unpack(made.ids) } } end
  end
  zadd(q.delayed, made.delayed)
  zadd(q.leases, made.expiring)
  if made.earliest then steps[#steps + 1] = { { 'ZADD', P .. 'timers', 'LT', int(made.earliest), q.name } } end
  zadd(P .. 'tasks:ttl', made.ends)
  zadd(P .. 'created', made.created)
  steps[#steps + 1] = { { 'SADD', P .. 'queues', q.name } }
  return pushes
end

-- Whether the queue's spread shard lives on another server now: then nothing more is made here.
local function has_left(q)
  local shard = string.match(q.name, ':s:(p%d+)$')
  return shard and redis.call('HEXISTS', P .. 'layout', 'gone:' .. shard) == 1
end

-- Replies with how many were ready before; for each task the record that exists already, or ''; and what is told of a
-- task that had to end for it. `steps`: what else is to be done with it, or not at all.
local function take_in(q, first, by, steps)
  local made, told = gather(q, first, by, steps), {}
  if made.replies[1] == 'MOVING' then return { 'MOVING' } end
  local has_tasks = #made.ids > 0
  if has_tasks and not by.is_tick and has_left(q) then return { 'MOVED' } end
  local pushes = has_tasks and store_steps(steps, q, made) or {}
  local refusal, done = attempt(steps)
  if refusal then return refusal end
  if made.after then
    local after = made.after()
    if has_tasks then told = after else made.replies[1] = after[1] end
  end
  if not has_tasks then return { 'OK', 1, made.replies, told } end
  -- A queue that the index did not name is not in its tenant's, either.
  if done[#steps] == 1 then redis.pcall('SADD', P .. 'queues:' .. ARGV[first], q.name) end
  redis.call('HSET', TASKS, unpack(made.records))
  for at = 1, #made.keys, 2 do redis.call('SET', made.keys[at], made.keys[at + 1]) end
  local before = 1
  if next(pushes) then
    for _, push in pairs(pushes) do push.length = done[push.step] end
    before = ready_before(q, pushes)
  end
  if made.has_ready_in_lanes then before = made.before end
  return freed({ 'OK', before, made.replies, told })
end
