-- List a run's effects, or those of all runs that are held and have no result. ARGV: prefix, run or '', limit, why: lost.
-- Returns run, name, record, run, name, record, …; an intent whose try is gone is shown as unknown.
local answer = {}
local function add(home, name, text)
  local r = parsed(text)
  if r.state == 'intended' and not live(r.run, r.step, r.token) then
    text = string.gsub(string.sub(text, 1, -2), '^intended', 'unknown') .. '\n' .. ARGV[4]
  end
  for _, part in ipairs({home, name, text}) do answer[#answer + 1] = part end
end
if ARGV[2] ~= '' then
  local all = redis.call('HGETALL', ledger(ARGV[2]))
  for i = 1, math.min(#all, 2 * tonumber(ARGV[3])), 2 do add(ARGV[2], all[i], all[i + 1]) end
  return answer
end
for _, member in ipairs(redis.call('ZREVRANGE', OPEN, 0, ARGV[3] - 1)) do
  local home, name = string.match(member, '^(%S+) (.*)$')
  local text = redis.call('HGET', ledger(home), name)
  if text then add(home, name, text) else redis.call('ZREM', OPEN, member) end
end
return answer
