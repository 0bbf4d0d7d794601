-- Sets or clears the flag that makes claims pass a queue over.
-- KEYS: paused queues; ARGV: queue, '1' to pause
if ARGV[2] == '1' then
  return { 'OK', redis.call('SADD', KEYS[1], ARGV[1]) }
end
return { 'OK', redis.call('SREM', KEYS[1], ARGV[1]) }
