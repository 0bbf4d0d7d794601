-- Gives a dead letter a full set of attempts again.
-- ARGV: id, text that follows the id, now ms, stamp, maximum of attempts or '', sequence number, queue name
local q = queue(1)
local id = ARGV[1]
local h = find(id)
if not h or not belongs(h, ARGV[2]) then return { 'NOT_FOUND' } end
if h.lastKnownLocation ~= 'DLQ_SET' then return { 'NOT_DEAD' } end
local before = ready(q)
local wrong = misused(q)
if wrong then return { 'WRONGTYPE', wrong } end
if not typed(QUEUES, 'set') then return { 'WRONGTYPE', QUEUES } end

redis.call('SREM', q.dlq, id)
redis.call('HDEL', RESULTS, id)
redis.call('ZREM', TTL, id)
redis.call('SADD', QUEUES, ARGV[7])
touch(h, tonumber(ARGV[3]), ARGV[4])
h.refunds, h.resultKey = h.attempts, ''
if ARGV[5] ~= '' then h.maxAttempts = tonumber(ARGV[5]) end
make_ready(q, id, h, tonumber(ARGV[6]))
return { 'OK', keep(id, h), before }
