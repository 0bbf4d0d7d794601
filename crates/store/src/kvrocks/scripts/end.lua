-- Stands behind every script. If the record is refused, the deed is done all the same: whoever asked puts it again.
local reply = run()
if audit and (reply[1] == 'OK' or reply[1] == 'ASKED') then
  local kept = redis.pcall('ZADD', records, audit[1], audit[2])
  if type(kept) == 'number' then
    redis.call('ZREMRANGEBYSCORE', records, '-inf', audit[3])
    redis.call('ZREMRANGEBYRANK', records, 0, audit[4])
    reply[#reply + 1] = 'AUDITED'
  end
end
if noted then reply[#reply + 1] = 'NOTED' end
return reply
