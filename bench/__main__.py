"""`python -m bench [MESSAGES]`: the comparison of `make bench`."""

from bench.pipeline import main

main()
