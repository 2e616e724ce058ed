-- Accept starts into the inbox: they are stored in order, and planned by a worker. ARGV: prefix, window, then per start:
-- run, dedup, text. Returns {how many were there before, run that serves it, …}; sent again it gives the same runs.
local answer = {redis.call('LLEN', P .. 'inbox')}
for i = 3, #ARGV, 3 do answer[#answer + 1] = keep_start(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[2]) end
return answer
