-- Ends leases that have run out, oldest deadline first.
-- ARGV: low-water score, now ms, stamp, limit, first sequence number, lease key prefix, 'store' or 'caller',
--       backoff ranges, seed, dead retention score, callbacks '1' or '', callback stamp, delivery id prefix
local q = queue(1)
local now, stamp, seq = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[5])
local due = redis.call('ZRANGEBYSCORE', q.leases, ARGV[1], int(now), 'WITHSCORES', 'LIMIT', 0, ARGV[4])
if #due == 0 then return { 'OK', {}, 0, 0, '' } end
local before = ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end

-- When the lease really ends, or nothing if it has ended.
local function lives_until(id, h)
  if ARGV[7] == 'caller' then
    if h.leaseUntilMs and h.leaseUntilMs > now then return h.leaseUntilMs end
    return nil
  end
  local left = redis.call('PTTL', ARGV[6] .. id)
  if left > 0 then return now + left end
end

local expired = {}
for i = 1, #due, 2 do
  local h = find(due[i])
  local running = h and h.status == 'IN_PROGRESS'
  expired[#expired + 1] = { id = due[i], h = running and h or nil, alive = running and lives_until(due[i], h) }
end

-- Park and Miller's generator: exact in doubles.
local state = tonumber(ARGV[9])
local function draw()
  state = (state * 16807) % 2147483647
  return state / 2147483647
end

local function callback(id, h, n)
  local told = cjson.decode(summary(h))
  if ARGV[11] == '' or not told.webhook then return '', '' end
  local delivery = ARGV[13] .. string.format('%08x', n)
  local body = '{"taskId":"' .. id .. '","eventType":' .. cjson.encode(told.command)
    .. ',"status":"FAILED","result":null,"error":"LEASE_EXPIRED","artifacts":[],"completedAt":'
    .. cjson.encode(ARGV[12]) .. '}'
  local text = '{"attempts":0,"id":"' .. delivery .. '","taskId":"' .. id .. '","tenantId":'
    .. cjson.encode(told.tenantId) .. ',"url":' .. cjson.encode(told.webhook) .. ',"body":'
    .. cjson.encode(body) .. ',"createdAt":"' .. stamp .. '"}'
  return delivery, text
end

local moved = {}
for n, one in ipairs(expired) do
  local id, h = one.id, one.h
  if one.alive then
    redis.call('ZADD', q.leases, int(one.alive), id)
  else
    free(q, id, ARGV[6] .. id)
    if h then
      local used, before_end = h.attempts - h.refunds, summary(h)
      touch(h, now, stamp)
      remember(id, h, now, 'lease_expired', 'LEASE_EXPIRED')
      h.error = 'LEASE_EXPIRED'
      if used >= (h.maxAttempts or 0) then
        local result = '{"taskId":"' .. id .. '","status":"FAILED","error":"LEASE_EXPIRED",'
          .. '"failureReason":"MAX_ATTEMPTS","completedAt":"' .. stamp .. '"}'
        redis.call('SADD', q.dlq, id)
        finish(id, h, 'FAILED', 'DLQ_SET', result, ARGV[10])
        local delivery, text = callback(id, h, n)
        call_back(delivery, text, now)
      else
        clear_lease(h)
        local delay = delay_of(ARGV[8], used, draw())
        if delay == 0 then
          make_ready(q, id, h, seq)
          seq = seq + 1
        else
          make_delayed(q, id, h, now + delay * 1000)
        end
      end
      keep(id, h)
      moved[#moved + 1] = { before_end, h.lastKnownLocation }
    end
  end
end
return { 'OK', moved, #expired, before, due[#due] }
