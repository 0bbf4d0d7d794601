-- New tasks that wait for others or join a batch, for whoever takes tasks in. After links.lua.
--
-- `o` is what intake reads of a task's options: `only` if it is to be refused unless an earlier create answers it,
-- `held`, and the `batch` that it joins.

-- What is replied instead of making a task: '-' for one that is refused anyway, '!' if its batch takes no more.
local function refused_link(made, o, tenant)
  if o.only and not o.name then return '-' end
  if not o.batch then return nil end
  made.shares = made.shares or {}
  local share = made.shares[o.batch] or find_share(o.batch)
  made.shares[o.batch] = share
  if share and share.tenant == tenant and not has_flag(share, SHUT) and not has_flag(share, PREPARED) then return nil end
  return '!'
end

-- Notes a task that is made. Whether it is held.
local function link_in(made, o, id, created_ms)
  if o.batch then
    local share, at = made.shares[o.batch], tonumber(created_ms)
    share.joins = share.joins or {}
    share.joins[#share.joins + 1], share.joins[#share.joins + 2] = created_ms, id
    share.live, share.joined = share.live + 1, math.max(share.joined, at)
  end
  if o.held then
    made.held = made.held or {}
    made.held[#made.held + 1] = id
  end
  return o.held
end

local function join_steps(steps, q, made)
  for batch, share in pairs(made.shares or {}) do
    if share.joins then
      local key = members_of(batch)
      steps[#steps + 1] = { { 'ZADD', key, unpack(share.joins) }, { 'ZREM', key, unpack(made.ids) } }
      keep_share(steps, batch, share, share.joined)
    end
  end
  if not made.held then return end
  local asks = {}
  for n, id in ipairs(made.held) do asks[2 * n - 1], asks[2 * n] = 0, id end
  steps[#steps + 1] = { { 'SADD', q.held, unpack(made.held) }, { 'SREM', q.held, unpack(made.held) } }
  steps[#steps + 1] = { { 'ZADD', ASKS, unpack(asks) }, { 'ZREM', ASKS, unpack(made.held) } }
  noted = true
end
