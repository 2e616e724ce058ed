"""Looking at a bot's plugins in a process of its own, which a plugin may end or hold up (docs/plugins.md, Quarantine).

The look is repeated without the plugin that ended it, so that all others are seen; marks name it (`lumia.loading`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

from lumia import paths
from lumia.loading import IMPORT, PROBE, Mark, amend, marks, remove
from lumia.quarantine import SLOW, too_long

LOOKS = 10
"""How many processes one look may take; each of the others was ended by another plugin."""
STARTING = 60.0
"""Seconds a look may take for anything but loading plugins."""
_POLL, _PATIENCE = 0.25, 5.0
_OPERATORS = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGKILL}
"""Ends that may be somebody's wish, and don't count against a plugin."""

Waiting = Callable[[Mark], None]


def look(
    root: Path,
    command: Sequence[str],
    *,
    limit: float,
    on_wait: Waiting = lambda mark: None,
    cwd: str | None = None,
    path: Path | None = None,
) -> CompletedProcess[str]:
    """Run `command`, which loads the plugins of `root`, until one run survives them; returns that, or the last one.

    limit: seconds that the import of a plugin may take. on_wait: hears of a plugin that takes a while. cwd: working
    folder. path: where Lumia is imported from, by default its own base. Raises `subprocess.TimeoutExpired` when
    something else takes too long.
    """
    probe = os.urandom(8).hex()
    searched = [str(path or paths.base()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(searched), "LUMIA_ROOT": str(root), PROBE: probe}
    guilty: set[Path] = set()
    seen: set[Path] = set()
    try:
        for _ in range(LOOKS):
            done = _run(root, command, env, limit or SLOW, on_wait, cwd)
            left = next((mark for mark in _of(root, probe) if not mark.alive and mark.file not in seen), None)
            if left is None:
                break
            seen.add(left.file)
            if not left.hung:
                amend(left, ended=ending(done.returncode))
            if left.hung or done.returncode not in _OPERATORS:
                guilty.add(left.file)
        return done
    finally:
        for mark in _of(root, probe):
            if mark.file in guilty:
                amend(mark, probe="")
            else:
                remove(mark)


def ending(code: int) -> str:
    """Say how a process ended: `exit code 1`, `SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _run(
    root: Path, command: Sequence[str], env: dict[str, str], limit: float, on_wait: Waiting, cwd: str | None
) -> CompletedProcess[str]:
    child = subprocess.Popen(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    quiet_since, told = time.monotonic(), None
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = child.communicate(timeout=_POLL)
                return CompletedProcess(command, child.returncode, out, err)
            mark = next((one for one in _of(root, env[PROBE]) if one.alive), None)
            if mark is None:
                if time.monotonic() - quiet_since > STARTING:
                    raise subprocess.TimeoutExpired(command, STARTING)
                continue
            quiet_since = time.monotonic()
            if mark.age > _PATIENCE and told != mark.file:
                told = mark.file
                on_wait(mark)
            if mark.doing == IMPORT and mark.age > limit + 1:  # it would have ended itself if it could
                amend(mark, ended=too_long(limit), hung=True)
                _kill(child)
    finally:
        _kill(child)
        child.communicate()


def _kill(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _of(root: Path, probe: str) -> list[Mark]:
    return [mark for mark in marks(root) if mark.probe == probe]


def python(*words: str) -> list[str]:
    """Return the command line of a module of Lumia's in this interpreter."""
    return [sys.executable, "-P", "-m", *words]
