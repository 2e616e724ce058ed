-- Write one entry of the journal outside of a run's own scripts. ARGV: prefix, limit, entry.
note(ARGV[2], ARGV[3])
return 1
