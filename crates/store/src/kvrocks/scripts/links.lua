-- What ties tasks together: a task may wait for others, be waited for, and belong to a batch. After record.lua.
--
-- Few tasks have `links` in the head of their record: `held`, what it waits for (`open` ids, then `delay` ms or `at` ms,
-- and `run` if a failure does not matter), `watched` if its end is to be told, `batch`. Whoever leaves something for a
-- carrier says so with `noted`: the process that ran the script looks at once, and a sweep looks in any case.
local SHARES, NEWS, CANCELLED_SHARES = P .. 'shares', P .. 'shares:news', P .. 'shares:cancelled'
local ASKS, ENDED = P .. 'asks', P .. 'ended'
-- Flags of a share: it takes no more members, its members are being cancelled, the batch's home does not know of it yet.
local SHUT, STOPPED, PREPARED = 1, 2, 4

local function has_flag(share, flag) return math.floor(share.flags / flag) % 2 == 1 end
local function set_flag(share, flag)
  if not has_flag(share, flag) then share.flags = share.flags + flag end
end

-- What this keyspace has of a batch: a line of counts, then the token of whoever prepared it, the name under which
-- the home knows it, and the tenant.
local function read_share(text)
  if type(text) ~= 'string' then return nil end
  local live, completed, failed, joined, flags, version, token, name, tenant =
    string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  if not live then return nil end
  return {
    live = tonumber(live), completed = tonumber(completed), failed = tonumber(failed), joined = tonumber(joined),
    flags = tonumber(flags), version = tonumber(version), token = token, name = name, tenant = tenant, text = text,
  }
end

local function share_text(s)
  return table.concat({
    int(s.live), int(s.completed), int(s.failed), int(s.joined), int(s.flags), int(s.version), s.token, s.name, s.tenant,
  }, ' ')
end

local function find_share(batch) return read_share(redis.call('HGET', SHARES, batch)) end

-- Stores a share that has changed, for the home to hear of.
local function keep_share(steps, batch, s, now)
  s.version = s.version + 1
  local undo = s.text and { 'HSET', SHARES, batch, s.text } or { 'HDEL', SHARES, batch }
  steps[#steps + 1] = { { 'HSET', SHARES, batch, share_text(s) }, undo, always = true }
  steps[#steps + 1] = { { 'ZADD', NEWS, int(now), batch } }
  if has_flag(s, STOPPED) and s.live > 0 then steps[#steps + 1] = { { 'ZADD', CANCELLED_SHARES, int(now), batch } } end
  noted = true
end

local function members_of(batch) return P .. 'members:' .. batch end

-- What has to happen when a task ends that has links.
local function end_links(steps, id, h, status)
  local links, now = h.links, h.updatedAtMs
  local share = links.batch and find_share(links.batch)
  local members = links.batch and members_of(links.batch)
  if share and redis.call('ZSCORE', members, id) then
    share.live = math.max(share.live - 1, 0)
    local name = status == 'COMPLETED' and 'completed' or 'failed'
    share[name] = share[name] + 1
    steps[#steps + 1] = { { 'ZREM', members, id }, { 'ZADD', members, int(created(h)), id } }
    keep_share(steps, links.batch, share, now)
  end
  if links.watched then
    local note = id .. (status == 'COMPLETED' and 'C' or 'F')
    steps[#steps + 1] = { { 'ZADD', ENDED, int(now), note }, { 'ZREM', ENDED, note } }
    links.watched, noted = nil, true
  end
  if not next(links) then h.links = nil end
end

-- A held task is held no more.
local function let_go(steps, q, id, h)
  steps[#steps + 1] = { { 'SREM', q.held, id }, { 'SADD', q.held, id } }
  steps[#steps + 1] = { { 'ZREM', ASKS, id }, { 'ZADD', ASKS, 0, id } }
  h.links.held = nil
  if not next(h.links) then h.links = nil end
end

-- A task that failed lives again: it waits for nothing, and counts in its batch unless that is over.
local function reopen_links(steps, id, h, now)
  local first, last = string.find(h.tail, ',"after":[', 1, true)
  if first then
    last = string.find(h.tail, ']', last, true)
    local _, rule = string.find(h.tail, '^,"onDependencyFailure":"%a*"', last + 1)
    h.tail = string.sub(h.tail, 1, first - 1) .. string.sub(h.tail, (rule or last) + 1)
  end
  local batch = h.links and h.links.batch
  local share = batch and find_share(batch)
  if share then
    share.live, share.failed = share.live + 1, math.max(share.failed - 1, 0)
    steps[#steps + 1] = { { 'ZADD', members_of(batch), int(created(h)), id }, { 'ZREM', members_of(batch), id } }
    keep_share(steps, batch, share, now)
  elseif batch then
    h.links.batch = nil
    if not next(h.links) then h.links = nil end
  end
end

-- A member that comes from another keyspace counts here from now on.
local function arrive_member(steps, batch, id, created_ms, where)
  local share, members = find_share(batch), members_of(batch)
  if not share then return end
  if where == 'dead' then
    share.failed = share.failed + 1
  else
    share.live = share.live + 1
    steps[#steps + 1] = { { 'ZADD', members, created_ms, id }, { 'ZREM', members, id } }
  end
  keep_share(steps, batch, share, share.joined)
end

-- A task has gone to another keyspace: it counts there, asks there, and whoever waits for it has to ask there.
local function leave_links(steps, id, h)
  local batch, members = h.links.batch, h.links.batch and members_of(h.links.batch)
  local share = batch and find_share(batch)
  local lives = share and redis.call('ZSCORE', members, id)
  if share and (lives or not is_live(h)) then
    local name = lives and 'live' or 'failed'
    share[name] = math.max(share[name] - 1, 0)
    if lives then steps[#steps + 1] = { { 'ZREM', members, id } } end
    keep_share(steps, batch, share, h.updatedAtMs)
  end
  if h.links.held then steps[#steps + 1] = { { 'ZREM', ASKS, id } } end
  if h.links.watched then
    steps[#steps + 1] = { { 'ZADD', ENDED, int(h.updatedAtMs), id .. 'M' } }
    noted = true
  end
end
