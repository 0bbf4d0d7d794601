-- Forgets a task that has arrived at another shard. Its idempotency keys point there. After links.lua.
-- ARGV: id, destination, then its idempotency keys
local id, MOVING = ARGV[1], P .. 'moving'
if redis.call('HEXISTS', MOVING, id) == 0 then return { 'KEPT' } end
for at = 3, #ARGV do
  if redis.call('GET', ARGV[at]) == id then
    local left, pointer = redis.call('PTTL', ARGV[at]), '>' .. ARGV[2] .. ' ' .. id
    if left > 0 then
      redis.call('SET', ARGV[at], pointer, 'PX', left)
    else
      redis.call('SET', ARGV[at], pointer)
    end
  end
end
local h = find(id)
local key = h and h.unique and P .. 'unique:' .. h.unique.name
if key and redis.pcall('GET', key) == id then redis.call('DEL', key) end
local steps = {
  { { 'ZREM', P .. 'tasks:ttl', id } }, { { 'ZREM', P .. 'created', id } }, { { 'HDEL', P .. 'results', id } },
  { { 'HDEL', P .. 'history', id } }, { { 'HDEL', P .. 'checkpoints', id } }, { { 'HDEL', TASKS, id } }, { { 'HDEL', MOVING, id } },
}
if h and h.links then leave_links(steps, id, h) end
return attempt(steps) or { 'OK' }
