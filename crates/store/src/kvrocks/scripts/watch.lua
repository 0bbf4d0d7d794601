-- Asks how a task or batch stands, for a held task: it is noted here to be told of the end, or hears of it now.
-- After links.lua.
-- ARGV: id, text that follows the id of a task, tenant, who asks
local id, steps = ARGV[1], {}
local key, h = P .. 'watchers:' .. id, find(id)
steps[1] = { { 'ZADD', key, 0, ARGV[4] }, { 'ZREM', key, ARGV[4] } }
if h then
  if not belongs(h, ARGV[2]) then return { 'NOWHERE' } end
  if not is_live(h) then return { h.status == 'COMPLETED' and 'C' or 'F' } end
  -- An end before this life is still being told, or the task is on its way elsewhere: to be asked again.
  if redis.call('ZSCORE', ENDED, id .. 'C') or redis.call('ZSCORE', ENDED, id .. 'F') then return { 'BUSY' } end
  if redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'BUSY' } end
  local refusal = attempt(steps)
  if refusal then return refusal end
  h.links = h.links or {}
  if not h.links.watched then
    h.links.watched = true
    keep(id, h)
  end
  return { 'WATCHED' }
end
local text = redis.call('HGET', P .. 'batches', id)
local ok, batch = pcall(cjson.decode, text or 'null')
if not ok or type(batch) ~= 'table' or batch.tenant ~= ARGV[3] then return { 'NOWHERE' } end
if type(batch.ended) == 'table' then return { batch.ended.completed and 'C' or 'F' } end
return attempt(steps) or { 'WATCHED' }
