-- The gate in front of what a worker may do to a running task, in the order of the contract.
-- ARGV: id, text that follows the id, worker id, subject, attempt or '', now ms, stamp
local q = queue(1)
local id, now, stamp = ARGV[1], tonumber(ARGV[6]), ARGV[7]
local lease = P .. 'lease:' .. id
local h = find(id)

local function refused()
  if not h or not belongs(h, ARGV[2]) then return 'NOT_FOUND' end
  if h.cancelled then return 'CANCELLED' end
  if ARGV[5] ~= '' and tonumber(ARGV[5]) ~= h.attempts then return 'LEASE_LOST' end
  if h.status ~= 'IN_PROGRESS' then return 'NOT_IN_PROGRESS' end
  if h.workerId ~= ARGV[3] then return 'NOT_OWNER' end
  -- Tasks that the original server lent have no subject.
  if h.ownerSub and h.ownerSub ~= ARGV[4] then return 'NOT_OWNER' end
end

local refusal = refused()
if refusal then
  -- Of two copies of a task that moves the other one counts.
  if h and redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
  return { refusal }
end
