-- Moves a schedule on if nobody else has, with the tasks that this makes: all of it or nothing. After intake.lua.
-- ARGV: now ms, stamp, what `endings` reads (4), tenant and name, progress that was read, new progress, next tick ms or
--       '', overlap ('allow', 'skip' or 'cancel'), task of the last tick or '', progress if this one is skipped, what
--       the names of the queue and of those on the default shard are made of; then what `take_in` reads, or nothing
local FIRST = 16
local q, by = queue(1), endings(tonumber(ARGV[1]), ARGV[2], 3)
by.is_tick = true
local PROGRESS_OF, TICKS, field, steps = P .. 'schedules:progress', P .. 'ticks', ARGV[7], {}
local read, tick = redis.call('HGET', PROGRESS_OF, field), redis.call('ZSCORE', TICKS, field)
if read ~= ARGV[8] then return { 'CHANGED' } end

local overlap, id = ARGV[11], ARGV[12]
local last = overlap ~= 'allow' and id ~= '' and find(id)
local lives = last and is_live(last)
local is_skipped, is_running = lives and overlap == 'skip', lives and last.status == 'IN_PROGRESS'
local set = ARGV[10] == '' and { 'ZREM', TICKS, field } or { 'ZADD', TICKS, ARGV[10], field }
local undo = tick and { 'ZADD', TICKS, tick, field } or { 'ZREM', TICKS, field }
steps[1] = { { 'HSET', PROGRESS_OF, field, is_skipped and ARGV[13] or ARGV[9] }, { 'HSET', PROGRESS_OF, field, read } }
steps[1].always = true
steps[2] = { set, undo, always = true }
if is_skipped or #ARGV < FIRST then return attempt(steps) or { is_skipped and 'SKIPPED' or 'OK', 1, {}, {} } end

if not lives then return take_in(q, FIRST, by, steps) end
if redis.call('HEXISTS', P .. 'moving', id) == 1 then return { 'MOVING' } end
local told = summary_read(last)
local error = cancel_steps(steps, by, queue_of(last, ARGV[14], ARGV[15]), id, last)
local reply = take_in(q, FIRST, by, steps)
if reply[1] ~= 'OK' then return reply end
if is_running then redis.call('DEL', P .. 'lease:' .. id) end
keep(id, last)
reply[4] = { told, error }
return reply
