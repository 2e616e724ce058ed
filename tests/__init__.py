"""Tests; one folder mirrors each folder of the project.

Several test processes share the cores, and each test may start more: numpy and the embedding compute with one thread
each instead of waiting for each other's.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
