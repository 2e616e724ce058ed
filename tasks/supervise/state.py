"""The state file of `lumia up`: what runs, under which identity, and where it answers.

Written by the supervisor alone, atomically and 0600 (it holds the servers' URLs with their passwords); read by
`status`, `down`, the commands that need a URL, and the next `up`, which ends what a killed supervisor left behind.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.supervise import lock
from tasks.supervise.folders import Folders
from tasks.supervise.identity import is_process
from tasks.supervise.private import write_private


@dataclass(frozen=True)
class ServiceState:
    """One supervised process as others see it.

    state: starting, ready, unresponsive, restarting, stopping, stopped, failed or external. started: the
    process's start mark, which with pid and command identifies it. since: seconds since the epoch of this state.
    """

    name: str
    pid: int | None
    state: str
    url: str | None
    command: tuple[str, ...] = ()
    started: float = 0.0
    since: float = 0.0
    restarts: int = 0
    kind: str = ""
    essential: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the four keys of `lumia status --json`."""
        return {"name": self.name, "pid": self.pid, "state": self.state, "url": self.url}


@dataclass(frozen=True)
class UpState:
    """What one supervisor knows: its own identity, the servers' URLs and its services.

    ready: every essential service answers now. announced: `lumia up` has said so once.
    """

    pid: int
    started: float
    ready: bool = False
    announced: bool = False
    redis_url: str = ""
    database_url: str = ""
    services: tuple[ServiceState, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fixed shape of `lumia status --json`."""
        return {"ready": self.ready, "services": [service.as_dict() for service in self.services]}


def write_state(file: Path, state: UpState) -> None:
    """Replace the state file in one step, so that a reader never sees half of it."""
    write_private(file, json.dumps(asdict(state)))


def read_state(file: Path) -> UpState | None:
    """Return what the file says, running or not; None when there is none or it can't be understood."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        services = tuple(ServiceState(**{**one, "command": tuple(one["command"])}) for one in raw.pop("services"))
        return UpState(**{**raw, "services": services})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def running(folders: Folders) -> UpState | None:
    """Return the state of the supervisor that runs now, or None when none does."""
    pid = lock.holder(folders.lock)
    if pid is None:
        return None
    state = read_state(folders.state)
    return state if state is not None and state.pid == pid else UpState(pid, 0.0)


def leftovers(file: Path) -> Sequence[ServiceState]:
    """Return the processes of a supervisor that is gone which still live, verified by pid, create time and command."""
    state = read_state(file)
    if state is None:
        return []
    return [one for one in state.services if is_process(one.pid, one.started, one.command)]
