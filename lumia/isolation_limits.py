"""What a process of an isolated plugin does to itself before it runs any of the plugin's code."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

from lumia.manifest import ProcessLimits

MIB = 1024 * 1024
SPARE_MB = 512
"""Above the limit that is watched from outside: what one allocation may ask for before the system refuses it."""


def restrain(limits: ProcessLimits) -> None:
    """Limit this process, and what it will start, as far as the system can; the rest is watched from outside.

    One huge allocation raises `MemoryError` instead of taking the machine along, a crash leaves no core file, and when
    the machine is short of memory the kernel ends this process before any other of the bot.
    """
    _lower(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        _lower(resource.RLIMIT_DATA, (limits.memory_mb + SPARE_MB) * MIB)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    with suppress(OSError):
        os.nice(5)


def _lower(which: int, to: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY or to < hard:
        resource.setrlimit(which, (to, to))
