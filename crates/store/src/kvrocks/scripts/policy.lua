-- What the policy of a queue says. After record.lua.
--
-- `Q:flow` is there only where something restricts the queue (see lanes.lua).
local has_freed = false

-- Tells the caller that something may start that could not before.
local function freed(reply)
  if has_freed then reply[#reply + 1] = 'FREED' end
  return reply
end

-- What the policy of a queue says, or false.
local function rule_of(q)
  if q.rule == nil then
    local text = redis.pcall('HGET', q.base .. ':flow', 'rule')
    q.rule = type(text) == 'string' and cjson.decode(text)
  end
  return q.rule
end

-- The score up to which the record of an ended task is kept, by its queue's policy.
local function kept_until(q, h, status, where, ends)
  local rule = q and where ~= 'DLQ_SET' and rule_of(q)
  local keep = rule and (status == 'COMPLETED' and rule.keep or status == 'FAILED' and rule.keepFailed)
  return keep and score(h.updatedAtMs + keep) or ends
end

-- The delays after failed attempts, by its queue's policy.
local function backoff_of(q, ranges)
  local rule = rule_of(q)
  return rule and rule.backoff or ranges
end

-- The seconds that a worker asks for, as far as its queue lets it.
local function asked_delay(q, asked, most)
  local rule = rule_of(q)
  return math.min(asked, rule and rule.backoffMax or most)
end
