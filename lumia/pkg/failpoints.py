"""Places where an operation can be made to fail, for tests of what happens then.

`LUMIA_PKG_FAILPOINT=<step>[=kill|error]` acts at the first passing of that step: `kill` (the default) ends the process
like `kill -9` would, `error` is a disk that fails. Steps are named as the journal names them (`lumia.pkg.journal`),
with `.done` for the moment after one, and with `:<plugin>` for that of a single plugin: `swap-in.done:dice`.
"""

from __future__ import annotations

import errno
import os
import signal

VARIABLE = "LUMIA_PKG_FAILPOINT"


def hit(step: str, plugin: str = "") -> None:
    """Act if the variable names this step; raises `OSError` for `error`, doesn't return for `kill`."""
    asked, _, mode = os.environ.get(VARIABLE, "").partition("=")
    if not asked or asked not in (step, f"{step}:{plugin}"):
        return
    if mode == "error":
        del os.environ[VARIABLE]
        raise OSError(errno.EIO, f"failpoint {asked}")
    die()


def die() -> None:
    """End this process at once, with nothing cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
