-- Comes first in every script about tasks: names of keys, and writing without leaving halves.
--
-- KEYS[1] is the hash of tasks, which begins with the prefix of its shard; behind it stands the name of each queue
-- that the script is about. All other keys are made of these: they share the prefix, and in a cluster the slot.
local TASKS = KEYS[1]
local P = string.sub(TASKS, 1, -6)

local function int(n) return string.format('%.0f', n) end
local function score(ms) return string.format('%.3f', ms / 1000) end

-- The queue whose keys begin so. `name` is what the indexes of queues and timers call it.
local function queue_at(base)
  return {
    base = base, name = string.sub(base, #P + 3), inprog = base .. ':inprog', leases = base .. ':leases',
    delayed = base .. ':delayed', dlq = base .. ':dlq', stale = base .. ':stale', list = base .. ':pending:',
    held = base .. ':held',
  }
end

-- The n-th queue that the script is about.
local function queue(n) return queue_at(KEYS[n + 1]) end

-- Hands a list over in parts that fit into one command. Pairs stay together.
local function in_parts(list, take)
  for at = 1, #list, 1000 do
    take({ unpack(list, at, math.min(at + 999, #list)) })
  end
end

-- Writes one thing after the other; each is a command and the one that undoes it, if it has changed something
-- (`always`: in any case), or functions `run` and `undo`. If the server refuses one (a key
-- of another type, no memory), those before it are undone and the refusal is what the script replies.
local function attempt(steps)
  local done = {}
  for n, step in ipairs(steps) do
    local got
    if step.run then
      local ok, answer = pcall(step.run)
      got = ok and (answer or 1) or { err = type(answer) == 'table' and answer.err or tostring(answer) }
    else
      got = redis.pcall(unpack(step[1]))
    end
    if type(got) == 'table' and got.err then
      for m = n - 1, 1, -1 do
        local undo = steps[m][2]
        if steps[m].undo then steps[m].undo() end
        if undo and (done[m] ~= 0 or steps[m].always) then redis.call(unpack(undo)) end
      end
      return { 'REFUSED', step[1][2], got.err }
    end
    done[n] = got
  end
  return nil, done
end

-- How many were ready before `pushed` came, which tells for each priority how many have come and how long the list
-- is now. Ids of tasks that are not pending any more stay in the lists until somebody pops them; `stale` counts
-- them by priority. Ready tasks of lanes are counted in `counts`, those that may start again as `c`. More than none is
-- told as one.
local function ready_before(q, pushed)
  local others, has_more = { q.base .. ':counts' }, false
  for p = 0, 9 do
    local here = pushed[p]
    if not here then
      others[#others + 1] = q.list .. p
    elseif here.length > here.count then
      has_more = true
    end
  end
  if not has_more and redis.call('EXISTS', unpack(others)) == 0 then return 0 end
  local stale = redis.pcall('HVALS', q.stale)
  if stale.err or #stale == 0 then return 1 end
  local ready = redis.call('EXISTS', others[1])
  for p = 0, 9 do
    local length = redis.pcall('LLEN', q.list .. p)
    if type(length) == 'number' then ready = ready + length end
    if pushed[p] then ready = ready - pushed[p].count end
  end
  for _, count in ipairs(stale) do ready = ready - tonumber(count) end
  return ready > 0 and 1 or 0
end
