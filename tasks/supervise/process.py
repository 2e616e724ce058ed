"""One supervised process: started, watched, restarted with growing pauses, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from tasks.supervise.account import shimmed
from tasks.supervise.folders import Folders
from tasks.supervise.identity import start_mark
from tasks.supervise.logs import last_lines, open_log
from tasks.supervise.service import Service
from tasks.supervise.state import ServiceState
from tasks.supervise.watch import Watch

FIRST_PAUSE, LONGEST_PAUSE, HEALTHY = 0.5, 30.0, 60.0
"""Seconds: the first and the longest pause before a restart; running this long forgets earlier deaths."""
SILENT = 30.0
"""Seconds without an answer after which a ready process counts as unresponsive. It is named, not killed."""


def pause(deaths: int) -> float:
    """Return the seconds to wait after this many deaths in a row: 0.5, 1, 2, … 30."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(deaths - 1, 10))


class Child:
    """A service and its process, driven by the supervisor's loop; nothing here waits for long.

    A service without a command is a server somebody else runs: it is only watched.
    """

    def __init__(self, service: Service, folders: Folders) -> None:
        self.service = service
        self.log = folders.log(service.name)
        self.state = "waiting"
        self.since = time.time()
        self.restarts = 0
        self.deaths = 0
        self.was_ready = False
        self.next_start = 0.0
        self.started_at = 0.0
        self._mark = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process in a group of its own, its output going to its log; OSError when it can't be."""
        self.service.prepare()
        if self.service.command:
            self._process = self._spawn()
            self._mark = start_mark(self._process.pid)
        pid = self.pid or 0
        self._watch = Watch(lambda: self.service.probe(pid), self.name)
        self.started_at = time.monotonic()
        self.enter("starting")

    def _spawn(self) -> subprocess.Popen[bytes]:
        service = self.service
        conditions = ["--parent", str(os.getpid()), "--die", str(int(service.orphan)), "--cwd", "/"]
        log = open_log(self.log)
        try:
            return subprocess.Popen(
                shimmed(service.command, *service.account.options(), *conditions),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(service.env),
                start_new_session=True,
            )
        finally:
            os.close(log)

    def look(self) -> bool:
        """Take over what the watch has seen; tell whether the process has just become ready."""
        if self._watch is None or self.state not in ("starting", "ready", "unresponsive"):
            return False
        before = self.state
        if self._watch.answered:
            self.enter("ready" if self._watch.silent < SILENT else "unresponsive")
        return self.state == "ready" and before == "starting"

    def enter(self, state: str) -> None:
        """Change the state, noting when."""
        if state != self.state:
            self.state, self.since = state, time.time()
        self.was_ready = self.was_ready or state == "ready"

    def ended(self) -> int | None:
        """Return the exit code once the process has ended, None while it runs or when there is none.

        The process stays unreaped where the system can do that, so its pid and group can't be somebody else's yet.
        """
        if self._process is None:
            return None
        if sys.platform != "linux":
            return self._process.poll()
        seen = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if seen is None:
            return None
        return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status

    def bury(self) -> float:
        """Forget the ended process and plan its successor; return the pause until then, in seconds."""
        now = time.monotonic()
        healthy = self.was_ready and now - self.started_at >= HEALTHY
        self._reap()
        self.deaths = 1 if healthy else self.deaths + 1
        self.restarts += 1
        wait = pause(self.deaths)
        self.next_start = now + wait
        self.enter("restarting")
        return wait

    def succeed(self) -> None:
        """Forget a process that left of its own accord; its successor starts at once and no death is counted."""
        self._reap()
        self.restarts += 1
        self.next_start = time.monotonic()
        self.enter("restarting")

    def signal(self, how: signal.Signals) -> None:
        """Send a signal to the process itself; its own children are its business."""
        if self._process is not None and self.ended() is None:
            self._process.send_signal(how)

    def close(self) -> None:
        """End whatever is left of the process and note that it has ended for good."""
        self._reap()
        self.enter("stopped")

    def last_words(self) -> str:
        """Return the last line of the log, for an error of one line."""
        lines = last_lines(self.log, 1)
        return lines[0] if lines else "its log is empty"

    def shown(self) -> ServiceState:
        """Return what others may know."""
        service = self.service
        return ServiceState(
            name=service.name,
            pid=self.pid,
            state=self.state,
            url=service.url,
            command=service.command,
            started=self._mark if self.pid else 0.0,
            since=self.since,
            restarts=self.restarts,
            kind=service.kind,
            essential=service.essential,
        )

    def _reap(self) -> None:
        """End what is left of the group (pool children may outlive their parent), then take the exit code."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
