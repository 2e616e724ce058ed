-- Count one more under a name, if its rate allows it now. ARGV: prefix, JSON {n, iv, sl}. Returns the ms to wait, as text.
return string.format('%.3f', lanes().counted(cjson.decode(ARGV[2]), false))
