-- Which of these queues may have something for a claim: ready ids, or something that is due. Writes nothing.
-- After base.lua. ARGV: now ms
local now, names, found = tonumber(ARGV[1]), {}, {}
for n = 2, #KEYS do names[n - 1] = string.sub(KEYS[n], #P + 3) end
local known = redis.call('SMISMEMBER', P .. 'queues', unpack(names))
for n = 1, #names do
  if known[n] == 1 then
    local q = queue(n)
    local keys = {}
    for p = 0, 9 do keys[p + 1] = q.list .. p end
    -- Some of a lane may be claimable, or may be when its time has come.
    keys[11], keys[12] = q.base .. ':turns', q.base .. ':closed'
    local bound = redis.call('ZSCORE', P .. 'timers', q.name)
    local is_due = bound and tonumber(bound) <= now
    if not bound then is_due = redis.call('EXISTS', q.leases, q.delayed) > 0 end
    if is_due or redis.call('EXISTS', unpack(keys)) > 0 then found[#found + 1] = n - 1 end
  end
end
return { 'OK', found }
