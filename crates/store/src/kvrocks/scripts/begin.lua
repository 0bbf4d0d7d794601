-- Stands before every script.
--
-- KEYS: as the script says, then the records of operators if it is an operator's; ARGV: as the script says, then
-- the time of the record, its text, the time before which others go, and the rank up to which they go
local noted, audit = false, nil
local records = KEYS[#KEYS]
if records and (records == 'codeq:audit' or string.match(records, '^codeq:{[^}]*}:audit$')) then
  audit = { unpack(ARGV, #ARGV - 3) }
  KEYS[#KEYS] = nil
  for _ = 1, 4 do ARGV[#ARGV] = nil end
end
