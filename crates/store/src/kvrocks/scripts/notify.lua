-- Chooses whom to tell that a queue has filled: one of every lot, passing over who rests. Who is chosen rests.
-- KEYS: subscriptions, then of every lot its turns if it has them, and the marks of its members
-- ARGV: of every lot its number or 'turns', how many members it has, and their intervals in ms
local lots, key, arg = {}, 2, 1
while arg <= #ARGV do
  local lot = { number = tonumber(ARGV[arg]), count = tonumber(ARGV[arg + 1]), marks = key, intervals = arg + 2 }
  if not lot.number then
    lot.turns, lot.marks = KEYS[key], key + 1
    local found = redis.call('TYPE', lot.turns)
    found = found.ok or found
    if found ~= 'none' and found ~= 'string' then return { 'WRONGTYPE', lot.turns } end
  end
  key, arg = lot.marks + lot.count, lot.intervals + lot.count
  lots[#lots + 1] = lot
end

local function is_free(lot, place)
  return ARGV[lot.intervals + place] == '0' or redis.call('EXISTS', KEYS[lot.marks + place]) == 0
end

for _, lot in ipairs(lots) do
  if lot.turns then
    local turn = tonumber(redis.call('GET', lot.turns) or '') or 0
    for at = turn, turn + lot.count - 1 do
      if is_free(lot, at % lot.count) then
        lot.chosen, lot.turn = at % lot.count, at + 1
        break
      end
    end
  else
    local free = {}
    for place = 0, lot.count - 1 do
      if is_free(lot, place) then free[#free + 1] = place end
    end
    if #free > 0 then lot.chosen = free[lot.number % #free + 1] end
  end
end

local chosen = {}
for at, lot in ipairs(lots) do
  chosen[at] = lot.chosen or -1
  if lot.chosen then
    if lot.turns then redis.call('SET', lot.turns, string.format('%.0f', lot.turn)) end
    local interval = ARGV[lot.intervals + lot.chosen]
    if interval ~= '0' then redis.call('SET', KEYS[lot.marks + lot.chosen], '1', 'PX', interval) end
  end
end
return { 'OK', chosen }
