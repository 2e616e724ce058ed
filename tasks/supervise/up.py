"""`lumia up` from the first check to the last file removed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from lumia.errors import SupervisorError
from tasks.supervise import requests
from tasks.supervise.folders import Folders
from tasks.supervise.identity import end
from tasks.supervise.isolated import make_environments
from tasks.supervise.lock import UpLock
from tasks.supervise.logs import rotate_at_start
from tasks.supervise.plan import Plan, UpOptions, make_plan
from tasks.supervise.private import write_private
from tasks.supervise.state import ServiceState, UpState, leftovers
from tasks.supervise.supervisor import Say, Supervisor

OWN_LOG = "up"
_LAST_TO_GO = {"postgres": 1, "valkey": 2}


def run(
    base: Path,
    root: Path,
    options: UpOptions,
    say: Say,
    on_ready: Callable[[UpState], None],
    planned: Callable[[Path, Path, UpOptions], Plan] = make_plan,
) -> None:
    """Start the bot of `root` and keep it running until a signal; returns when everything has ended.

    say: gets lines of progress. on_ready: called once, when everything answers. Raises `LumiaError` when the start
    fails; nothing is left running then.
    """
    refuse_windows()
    folders = Folders(root)
    folders.prepare()
    with UpLock(folders.lock), _interrupts() as raise_if_interrupted:
        try:
            end_leftovers(folders, say)
            requests.clear(folders.requests)
            plan = planned(base, root, options)
            plan.check_ports()
            for service in plan.services:
                rotate_at_start(folders.log(service.name))
            make_environments(plan.place, say)
            supervisor = Supervisor(
                folders,
                plan.services,
                say=say,
                make_worker=plan.make_worker,
                redis_url=plan.place.redis_url,
                database_url=plan.place.database_url,
                changing=plan.changing,
            )
            write_private(folders.redis_url, plan.place.redis_url)
            write_private(folders.database_url, plan.place.database_url)
            say(f"starting {', '.join(service.name for service in plan.services)}; logs are in {folders.logs}")
            raise_if_interrupted()
            supervisor.run(on_ready)
        finally:
            sweep(folders)


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Remember a Ctrl-C that comes before the supervisor listens: running code may swallow the exception."""
    seen: list[int] = []

    def interrupted(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    def raise_if_interrupted() -> None:
        if seen:
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)
    yield raise_if_interrupted


def sweep(folders: Folders) -> None:
    """Remove what only a running supervisor may leave in data/run; the lock file is its holder's business."""
    requests.clear(folders.requests)
    for file in (folders.state, folders.redis_url, folders.database_url):
        file.unlink(missing_ok=True)


def refuse_windows() -> None:
    """Raise `SupervisorError` on Windows: neither process groups nor the servers work there."""
    if sys.platform == "win32":
        raise SupervisorError("Lumia runs on Linux and macOS; on Windows use WSL (`wsl --install`) and start it there")


def end_leftovers(folders: Folders, say: Say) -> Sequence[ServiceState]:
    """End what a supervisor that was killed left running, the stores last; return what was found.

    Only processes whose pid, start and command all match the state file are touched.
    """
    found = sorted(leftovers(folders.state), key=lambda one: _LAST_TO_GO.get(one.kind, 0))
    for one in found:
        say(f"{one.name} (pid {one.pid}) is left from a `lumia up` that was killed; ending it")
        how = signal.SIGINT if one.kind == "postgres" else signal.SIGTERM
        end(one.pid or 0, one.started, how, grace=30.0 if one.kind in _LAST_TO_GO else 10.0)
    return found
