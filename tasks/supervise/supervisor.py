"""The loop that keeps a bot's processes running, and the drain that ends them in order."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from lumia.errors import LumiaError, SupervisorError
from lumia.loading import IMPORT, Mark, amend, of_process, remove
from lumia.quarantine import too_long
from tasks.supervise import requests
from tasks.supervise.folders import Folders
from tasks.supervise.identity import start_mark
from tasks.supervise.logs import keep_bounded
from tasks.supervise.process import Child
from tasks.supervise.service import Service
from tasks.supervise.state import UpState, write_state

HUNG = 70
"""Exit code of a worker that leaves because too many of its threads hang."""
START_TRIES = 3
"""Deaths of an essential service before it was ever ready after which `up` gives up."""
EXTRA_WAIT = 30.0
"""Seconds that inessential services may keep `up` from saying it is ready, once the essential ones are."""
LOADING = 600.0
"""Seconds a plugin's `on_load` may take, beyond which its process isn't waited for any more."""
_PULSE, _HOUSEKEEPING, _COMPARING = 0.1, 5.0, 1.0
_SECOND_THOUGHT = 1.0
"""Seconds within which two signals are one wish: Ctrl-C under `make` reaches us twice."""
_REASONS_TO_LEAVE = {0: "it needs a fresh start", HUNG: "its threads hung"}
_WORKERS = ("worker", "isolated")
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Say = Callable[[str], None]
MakeWorker = Callable[[Mapping[str, Any]], Service]


class Supervisor:
    """Starts services, restarts them, answers requests, and drains on SIGINT, SIGTERM or SIGHUP.

    say: gets each line of progress. make_worker: turns the arguments of `lumia worker add` into a service. changing:
    tells which services of the kind `isolated` there are to be, as plugins come and go.
    """

    parting = 30.0
    """Seconds that the worker of a plugin that is gone or changed goes on: runs in flight end with what they began."""

    def __init__(
        self,
        folders: Folders,
        services: Iterable[Service],
        *,
        say: Say,
        make_worker: MakeWorker | None = None,
        redis_url: str = "",
        database_url: str = "",
        changing: Callable[[], Sequence[Service]] | None = None,
    ) -> None:
        self._folders = folders
        self._children = [Child(service, folders) for service in services]
        self._leaving: list[tuple[Child, str, float]] = []
        self._say = say
        self._make_worker = make_worker
        self._changing = changing
        self._compared = time.monotonic()
        self._gone: dict[str, float] = {}
        self._base = UpState(os.getpid(), start_mark(os.getpid()), redis_url=redis_url, database_url=database_url)
        self._written: UpState | None = None
        self._stops = 0
        self._stopped_at = -_SECOND_THOUGHT
        self._announced = False
        self._essential_since = 0.0
        self._housekept = time.monotonic()
        self._wake: tuple[int, int] = (-1, -1)
        self._told_loading: dict[str, Path] = {}

    @property
    def state(self) -> UpState:
        """What others may know now."""
        everyone = [*self._children, *(child for child, _, _ in self._leaving)]
        return replace(
            self._base,
            ready=self._ready(),
            announced=self._announced,
            services=tuple(child.shown() for child in everyone),
        )

    def run(self, on_ready: Callable[[UpState], None]) -> None:
        """Run until a signal asks for the end; `on_ready` is called once.

        Raises `SupervisorError` when an essential service can't be started at all. Everything is drained either way.
        """
        self._listen()
        try:
            while not self._stops:
                self._turn()
                if not self._announced and self._may_announce():
                    self._announced = True
                    self._publish()
                    on_ready(self.state)
                self._sleep()
        finally:
            self._drain()
            self._unlisten()

    # -- one turn of the loop ------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        for child in self._children:
            self._look_after(child)
        self._see_off()
        self._compare()
        for request in requests.taken(self._folders.requests):
            self._serve(request)
        self._publish()
        if time.monotonic() - self._housekept > _HOUSEKEEPING:
            self._housekept = time.monotonic()
            for log in self._folders.logs.glob("*.log"):
                keep_bounded(log)

    def _look_after(self, child: Child) -> None:
        code = child.ended()
        if code is not None:
            self._replace(child, code)
        elif child.state in ("waiting", "restarting"):
            if time.monotonic() >= child.next_start and self._may_start(child):
                self._start(child)
        elif child.look():
            pid = f", pid {child.pid}" if child.pid else ""
            self._say(f"{child.name} is ready ({time.monotonic() - child.started_at:.1f} s{pid})")
        elif child.state == "starting" and time.monotonic() - child.started_at > child.service.start_timeout:
            self._overdue(child)

    def _may_start(self, child: Child) -> bool:
        needed = set(child.service.after)
        return all(other.was_ready for other in self._children if other.name in needed)

    def _start(self, child: Child) -> None:
        try:
            child.start()
        except (OSError, LumiaError) as error:
            if not self._announced and child.service.essential:
                raise SupervisorError(f"{child.name} can't be started: {error}") from error
            self._mourn(child, f"can't be started: {error}")

    def _mourn(self, child: Child, how: str) -> None:
        pid = f" (pid {child.pid})" if child.pid else ""
        words = child.last_words()
        mark = self._loading(child)
        if mark is not None:  # it is tried without that plugin soon: neither hopeless nor worth long pauses
            child.deaths = 0
        wait = child.bury()
        if mark is not None:
            amend(mark, ended=mark.ended or how)
            stage = f"while plugin {mark.plugin} was in its {mark.doing}"
            self._say(f"{child.name}{pid} {how} {stage}; see `lumia plugins`; starting it again in {wait:g} s")
            return
        hopeless = not self._announced and child.service.essential and child.deaths >= START_TRIES
        if hopeless and not child.was_ready:
            raise SupervisorError(f"{child.name} {how} {child.deaths} times: {words}; see {child.log}")
        self._say(f"{child.name}{pid} {how}; starting it again in {wait:g} s; its last line: {words}")

    def _replace(self, child: Child, code: int) -> None:
        """Start a successor: at once for a worker that had worked and left of its own accord, else after a pause."""
        why = _REASONS_TO_LEAVE.get(code)
        if why is None or child.service.kind not in _WORKERS or child.state not in ("ready", "unresponsive"):
            self._mourn(child, f"ended with {_ending(code)}")
            return
        pid = child.pid
        child.succeed()
        self._say(f"{child.name} (pid {pid}) left because {why} (exit code {code}); starting it again at once")

    def _loading(self, child: Child) -> Mark | None:
        """Return what a process is loading, or was loading when it ended."""
        mark = of_process(self._folders.root, child.pid) if child.pid else None
        here = mark is not None and mark.age <= time.monotonic() - child.started_at + _SECOND_THOUGHT
        return mark if here else None  # an earlier process may have had the same pid

    def _loads(self, child: Child) -> bool:
        """Tell whether a process may go on to load a plugin: models are loaded in `on_load`, imports end themselves."""
        mark = self._loading(child)
        if mark is None or not mark.alive or mark.age > (mark.limit + _SECOND_THOUGHT if mark.limit else LOADING):
            return False
        if self._told_loading.get(child.name) != mark.file:
            self._told_loading[child.name] = mark.file
            self._say(f"{child.name} (pid {child.pid}) isn't ready yet: plugin {mark.plugin} {mark.what}")
        return True

    def _overdue(self, child: Child) -> None:
        if self._loads(child):
            return
        limit = child.service.start_timeout
        mark = self._loading(child)
        if mark is not None and mark.doing == IMPORT:
            amend(mark, ended=too_long(mark.limit or limit), hung=True)
            self._mourn(child, f"wasn't ready after {limit:g} s")
            return
        if not child.service.command:
            raise SupervisorError(f"{child.name} doesn't answer at {child.service.url}; start it, or correct its URL")
        if not self._announced and child.service.essential:
            raise SupervisorError(f"{child.name} isn't ready after {limit:g} s: {child.last_words()}; see {child.log}")
        self._mourn(child, f"wasn't ready after {limit:g} s")

    def _ready(self) -> bool:
        return not self._stops and all(child.state == "ready" for child in self._children if child.service.essential)

    def _may_announce(self) -> bool:
        """Ready, and the inessential services have had their time too."""
        if not self._ready():
            self._essential_since = 0.0
            return False
        self._essential_since = self._essential_since or time.monotonic()
        waited = time.monotonic() - self._essential_since
        return all(child.state == "ready" for child in self._children) or waited > EXTRA_WAIT

    def _publish(self) -> None:
        state = self.state
        if state != self._written:
            with suppress(OSError):
                write_state(self._folders.state, state)
                self._written = state

    # -- workers come and go -------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Start the workers of isolated plugins that are new, and drain those of plugins that are gone or changed."""
        if self._changing is None or time.monotonic() - self._compared < _COMPARING:
            return
        self._compared = time.monotonic()
        wanted = {service.name: service for service in self._changing()}
        for child in [one for one in self._children if one.service.kind == "isolated"]:
            new = wanted.pop(child.name, None)
            if new is not None and new.command == child.service.command:
                self._gone.pop(child.name, None)
            elif self._compared - self._gone.setdefault(child.name, self._compared) > self.parting:
                del self._gone[child.name]
                self._see_out(child, "")
        leaving = {child.name for child, _, _ in self._leaving}
        for service in wanted.values():
            if service.name not in leaving:
                self._children.append(Child(service, self._folders))
                self._say(f"{service.name} is added: its plugin is isolated")

    def _serve(self, request: requests.Request) -> None:
        try:
            if request.op == "add":
                self._add(request)
            elif request.op == "remove":
                self._remove(request)
            else:
                raise SupervisorError(f"unknown request {request.op!r}")
        except LumiaError as error:
            requests.answer(self._folders.requests, request.id, {"error": str(error)})

    def _add(self, request: requests.Request) -> None:
        if self._make_worker is None:
            raise SupervisorError("this supervisor has no workers to add")
        service = self._make_worker(request.args)
        names = {child.name for child in self._children} | {child.name for child, _, _ in self._leaving}
        if service.name in names:
            raise SupervisorError(f"{service.name!r} is already there; give another --name, see `lumia worker list`")
        child = Child(service, self._folders)
        self._children.append(child)
        self._start(child)
        self._say(f"worker {service.name} added (pid {child.pid})")
        requests.answer(self._folders.requests, request.id, {"name": service.name, "pid": child.pid})

    def _remove(self, request: requests.Request) -> None:
        name = str(request.args.get("name", ""))
        workers = [child for child in self._children if child.service.kind == "worker"]
        child = next((one for one in workers if one.name == name), None)
        if child is None:
            known = ", ".join(one.name for one in workers) or "none"
            raise SupervisorError(f"no worker is called {name!r}; running: {known}")
        if len(workers) == 1:
            raise SupervisorError(f"{name!r} is the last worker, without it no message is answered; add another first")
        if not child.service.queues and all(one.service.queues for one in workers if one is not child):
            raise SupervisorError(
                f"{name!r} is the last worker of the shared queues, nobody else serves them; add one like it first"
            )
        self._see_out(child, request.id)

    def _see_out(self, child: Child, request: str) -> None:
        self._children.remove(child)
        child.signal(child.service.stop)
        child.enter("stopping")
        self._leaving.append((child, request, time.monotonic() + child.service.grace))
        self._say(f"worker {child.name} is draining")

    def _see_off(self) -> None:
        for one in list(self._leaving):
            child, id, limit = one
            late = time.monotonic() > limit
            if child.pid is not None and child.ended() is None and not late:
                continue
            child.close()
            self._leaving.remove(one)
            self._say(f"worker {child.name} {'was ended after its grace period' if late else 'has drained'}")
            if id:
                requests.answer(self._folders.requests, id, {"name": child.name, "drained": not late})

    # -- the end -------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """End everything stage by stage: who takes work first, the stores last."""
        self._stops = max(self._stops, 1)
        everyone = [*self._children, *(child for child, _, _ in self._leaving)]
        for stage in sorted({child.service.stage for child in everyone}):
            self._end([child for child in everyone if child.service.stage == stage])
        self._publish()

    def _end(self, children: Sequence[Child]) -> None:
        asked = time.monotonic()
        waiting = [child for child in children if child.pid is not None]
        for child in waiting:
            child.signal(child.service.stop)
            child.enter("stopping")
        self._publish()
        while waiting:
            for child in [one for one in waiting if one.ended() is not None]:
                self._say(f"{child.name} has ended ({time.monotonic() - asked:.1f} s)")
                waiting.remove(child)
            for child in [one for one in waiting if time.monotonic() - asked > self._patience(one)]:
                self._say(
                    f"{child.name} (pid {child.pid}) did not end in time and was killed; nothing accepted is lost"
                )
                waiting.remove(child)
                if (mark := self._loading(child)) is not None:
                    remove(mark)  # that was our doing
                child.close()
            if waiting:
                self._sleep()
        for child in children:
            child.close()

    def _patience(self, child: Child) -> float:
        """Seconds of grace; asked a second time, only the stores still get theirs; a third time, nobody."""
        keeps_data = child.service.kind in ("valkey", "postgres")
        return child.service.grace if self._stops < 2 or (self._stops < 3 and keeps_data) else 0.0

    # -- signals -------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            signal.signal(number, self._asked_to_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _unlisten(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in (*_STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for fd in self._wake:
            os.close(fd)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._stopped_at > _SECOND_THOUGHT:
            self._stops += 1
            self._stopped_at = time.monotonic()

    def _sleep(self) -> None:
        ready, _, _ = select.select([self._wake[0]], [], [], _PULSE)
        if ready:
            with suppress(BlockingIOError):
                os.read(self._wake[0], 4096)


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def _ending(code: int) -> str:
    """Say how a process ended: `exit code 1`, `SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
