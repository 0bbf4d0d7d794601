-- What a keyspace has of a batch, as the home of the batch and those who join want it. After links.lua.
-- ARGV: verb, id, now ms, then what the verb needs. Replies with the share where there is one.
local verb, id, now, steps = ARGV[1], ARGV[2], tonumber(ARGV[3]), {}
local share = find_share(id)
local function new(name, tenant, token)
  return {
    live = 0, completed = 0, failed = 0, joined = 0, flags = 0, version = 0, name = name, tenant = tenant, token = token,
  }
end
local function answer() return attempt(steps) or { 'OK', share and share_text(share) or '' } end

if verb == 'prepare' then
  -- name, tenant, token: whoever comes next goes on with the same token.
  if share then return { 'OK', share.text } end
  share = new(ARGV[4], ARGV[5], ARGV[6])
  set_flag(share, PREPARED)
  keep_share(steps, id, share, now)
  return answer()
elseif verb == 'open' then
  -- token: the home knows of it. One that was dropped meanwhile is not opened.
  if not share or share.token ~= ARGV[4] then return { 'LOST' } end
  if not has_flag(share, PREPARED) then return { 'OK', share.text } end
  share.flags = share.flags - PREPARED
  keep_share(steps, id, share, now)
  return answer()
elseif verb == 'shut' then
  -- '1' to cancel the members, name and tenant of one to make or ''
  if not share and ARGV[5] == '' then return { 'OK', '' } end
  share = share or new(ARGV[5], ARGV[6], '-')
  if has_flag(share, SHUT) and (ARGV[4] ~= '1' or has_flag(share, STOPPED)) then return { 'OK', share.text } end
  set_flag(share, SHUT)
  if has_flag(share, PREPARED) then share.flags = share.flags - PREPARED end
  if ARGV[4] == '1' then set_flag(share, STOPPED) end
  keep_share(steps, id, share, now)
  return answer()
elseif verb == 'heard' then
  -- version: the home has it.
  if share and share.version > tonumber(ARGV[4]) then return { 'OK', share.text } end
  steps[1] = { { 'ZREM', NEWS, id } }
  return answer()
elseif verb == 'drop' then
  -- the share that was read: nothing is told of it any more.
  if share and share.text ~= ARGV[4] then return { 'CHANGED' } end
  steps[1] = { { 'HDEL', SHARES, id } }
  steps[2] = { { 'ZREM', NEWS, id } }
  steps[3] = { { 'ZREM', CANCELLED_SHARES, id } }
  return attempt(steps) or { 'OK' }
elseif verb == 'calm' then
  -- All members that were to be cancelled have ended.
  if redis.call('EXISTS', members_of(id)) == 0 then steps[1] = { { 'ZREM', CANCELLED_SHARES, id } } end
  return answer()
end
return { 'UNKNOWN' }
