-- Take a step for this worker. ARGV: prefix, run, step, sequence, worker. Returns the claim, or {'dropped'}.
return take(ARGV[2], ARGV[3], ARGV[4], ARGV[5])
