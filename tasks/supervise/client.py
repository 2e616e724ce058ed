"""The other side of the supervisor: what `status`, `down`, `worker` and `up --detach` do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lumia.errors import SupervisorError
from tasks.supervise import requests
from tasks.supervise.folders import Folders
from tasks.supervise.lock import holder
from tasks.supervise.logs import last_lines, rotate_at_start
from tasks.supervise.plan import UpOptions
from tasks.supervise.state import ServiceState, UpState, running
from tasks.supervise.supervisor import Say
from tasks.supervise.up import OWN_LOG, end_leftovers, refuse_windows, sweep

STOPPED = UpState(0, 0.0)
_HURRIED = 15.0


def status(root: Path) -> UpState:
    """Return what runs now; not ready and without services when nothing does."""
    return running(Folders(root)) or STOPPED


def down(root: Path, say: Say, *, timeout: float) -> bool:
    """Drain the running bot and wait until nothing is left; tell whether one was running.

    After `timeout` seconds it is hurried, then killed: what was accepted is still in the store and goes on at the next
    start. Raises `SupervisorError` when this user may not signal it.
    """
    folders = Folders(root)
    pid = holder(folders.lock)
    if pid is None:
        swept = end_leftovers(folders, say)
        sweep(folders)
        return bool(swept)
    say(f"draining (pid {pid}): gateway, beat, workers, Flower, then the stores")
    for how, seconds, why in (
        (signal.SIGTERM, timeout, ""),
        (signal.SIGTERM, _HURRIED, f"not drained after {timeout:g} s; hurrying"),
        (signal.SIGKILL, _HURRIED, "still there; killing it"),
    ):
        if why:
            say(why)
        _signal(pid, how)
        if _until(lambda: holder(folders.lock) != pid, seconds):
            break
    end_leftovers(folders, say)
    if holder(folders.lock) is None:
        sweep(folders)
        folders.lock.unlink(missing_ok=True)
    return True


def _signal(pid: int, how: signal.Signals) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise SupervisorError(f"the bot (pid {pid}) belongs to another user; run `lumia down` as that user") from error


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def up_detached(base: Path, root: Path, options: UpOptions, say: Say) -> UpState:
    """Start a supervisor in the background and wait until it is ready; its lines go to data/logs/up.log.

    Raises `SupervisorError` with its last lines when the start fails.
    """
    refuse_windows()
    folders = Folders(root)
    folders.prepare()
    fresh_log(folders)
    command = [sys.executable, "-m", "tasks.supervise", str(root), *options.words()]
    path = [str(base), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    process = subprocess.Popen(
        command,
        cwd="/",
        env={**os.environ, "LUMIA_ROOT": str(root), "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _wait_ready(folders, process, say)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def _wait_ready(folders: Folders, process: subprocess.Popen[bytes], say: Say) -> UpState:
    told: set[str] = set()
    while process.poll() is None:
        state = running(folders)
        if state is not None and state.pid == process.pid:
            for one in state.services:
                if one.state == "ready" and one.name not in told:
                    told.add(one.name)
                    say(f"{one.name} is ready" + (f" (pid {one.pid})" if one.pid else ""))
            if state.announced:
                return state
        time.sleep(0.05)
    if process.returncode in (0, -signal.SIGTERM):
        raise SupervisorError("ended by `lumia down` while starting")
    lines = last_lines(folders.log(OWN_LOG), 5)
    raise SupervisorError(_reason(lines) or f"the supervisor ended with exit code {process.returncode}")


def _reason(lines: Sequence[str]) -> str:
    """Return what the log says about the failure: its error line, else its last lines."""
    errors = [line.partition(" error: ")[2] for line in lines if " error: " in line]
    return errors[-1] if errors else " | ".join(lines)


def workers(root: Path) -> list[ServiceState]:
    """Return the workers of the running bot; raises `SupervisorError` when none runs."""
    return [one for one in _running(root).services if one.kind == "worker"]


def add_worker(root: Path, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the running bot for one more worker; return its name and pid."""
    wanted = dict(args)
    if not wanted.get("name"):
        taken = {one.name for one in workers(root)}
        wanted["name"] = next(name for number in range(2, 1000) if (name := f"worker-{number}") not in taken)
    return _ask(root, "add", wanted, timeout=15.0)


def remove_worker(root: Path, name: str, *, timeout: float) -> Mapping[str, Any]:
    """Ask the running bot to drain a worker, and wait until it has ended."""
    return _ask(root, "remove", {"name": name}, timeout=timeout)


def _ask(root: Path, op: str, args: Mapping[str, Any], *, timeout: float) -> Mapping[str, Any]:
    folders = Folders(root)
    _running(root)
    try:
        return requests.ask(folders.requests, op, args, timeout=timeout, alive=lambda: holder(folders.lock) is not None)
    except OSError as error:
        raise SupervisorError(
            f"{folders.requests} can't be written: {error.strerror}; ask as the bot's user"
        ) from error


def _running(root: Path) -> UpState:
    state = running(Folders(root))
    if state is None:
        raise SupervisorError("this bot isn't up; start it with `lumia up`")
    return state


def fresh_log(folders: Folders) -> Path:
    """Put the supervisor's last log aside, unless one runs and writes to it; return the file."""
    log = folders.log(OWN_LOG)
    if holder(folders.lock) is None:
        rotate_at_start(log)
    return log


def log_line(file: Path, line: str) -> None:
    """Append one line with its time to the supervisor's own log; a full disk must not stop the bot."""
    with suppress(OSError), file.open("a", encoding="utf-8") as out:
        out.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")
