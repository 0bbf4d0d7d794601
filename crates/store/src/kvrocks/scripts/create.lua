-- Stores tasks of one queue and makes them claimable now or later. After intake.lua.
-- ARGV: now ms or '', stamp, what `endings` reads, then what `take_in` reads
return take_in(queue(1), 7, endings(tonumber(ARGV[1]) or 0, ARGV[2], 3), {})
