"""The processes of a campaign: started, killed, frozen, started again when they die, and all ended at its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.chaos.trace import Death, Freeze
from lumia.paths import base
from tasks.supervise.account import shimmed

POLL_SECONDS = 0.02
RESPAWN_SECONDS = 0.3
GRACE_SECONDS = 30.0


@dataclass
class Member:
    """A process with a job. again: start it again when it ends, without what its environment had of its own.

    log_at: where in its log its own lines begin.
    """

    name: str
    role: str
    command: Sequence[str]
    process: subprocess.Popen[bytes]
    again: bool = True
    log_at: int = 0
    seen: bool = False
    born: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Tell whether it runs."""
        return self.process.poll() is None


class Crew:
    """Starts processes under one folder and knows when each of them died or stood still."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = dict(env)
        self.members: list[Member] = []
        self.deaths: list[Death] = []
        self.freezes: list[Freeze] = []
        self.losses = 0
        self._lock = threading.RLock()
        self._closing = threading.Event()  # nothing is started again
        self._over = threading.Event()  # the watcher, whose end would end what it has started, may leave
        self._watcher = threading.Thread(target=self._watch, name="crew", daemon=True)
        folder.mkdir(parents=True, exist_ok=True)
        self._watcher.start()

    def start(self, name: str, role: str, command: Sequence[str], *, again: bool = True, **env: str) -> Member:
        """Start a process; it dies with this one, and is no member of the terminal's group."""
        with self._lock, (self.folder / f"{name}.log").open("ab") as out:
            words = shimmed(command, "--die", str(int(signal.SIGKILL)), "--parent", str(os.getpid()))
            process = subprocess.Popen(
                words, env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=base(),
                start_new_session=True,
            )  # fmt: skip
            member = Member(name, role, command, process, again, out.seek(0, os.SEEK_END))
            self.members.append(member)
            return member

    def until(self, reached: Callable[[], Any], seconds: float, what: str = "") -> bool:
        """Wait for a condition; with `what`, raise `RuntimeError` naming it when it is not reached in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if reached():
                return True
            time.sleep(0.05)
        if what:
            raise RuntimeError(f"{what}: not within {seconds:g} s; see {self.folder}")
        return False

    def of(self, role: str) -> list[Member]:
        """Return the living members of a role that are started again, in the order of their names."""
        with self._lock:
            found = [member for member in self.members if member.role == role and member.again and member.alive]
        return sorted(found, key=lambda member: member.name)

    def log_of(self, member: Member) -> str:
        """Return what a member has printed."""
        with (self.folder / f"{member.name}.log").open("rb") as log:
            log.seek(member.log_at)
            return log.read().decode(errors="replace")

    def kill(self, member: Member) -> None:
        """SIGKILL."""
        children = _children(member.pid)
        now = time.monotonic()
        with self._lock:
            self._died(member, now, kill=True)
            self.deaths += [Death(pid, now) for pid in children]
            member.process.kill()
        member.process.wait()

    def kill_child(self, member: Member, number: int) -> int:
        """SIGKILL one of a member's children and return its pid, 0 when there is none."""
        children = _children(member.pid)
        if not children:
            return 0
        pid = children[number % len(children)]
        with self._lock:
            self.deaths.append(Death(pid, time.monotonic()))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return pid

    def freeze(self, member: Member, seconds: float) -> None:
        """SIGSTOP, and after `seconds` SIGCONT."""
        began = time.monotonic()
        with suppress(ProcessLookupError):
            member.process.send_signal(signal.SIGSTOP)
        self._closing.wait(seconds)
        with suppress(ProcessLookupError):
            member.process.send_signal(signal.SIGCONT)
        with self._lock:
            self.freezes.append(Freeze(member.pid, began, time.monotonic()))

    def stop(self, member: Member, *, again: bool = True) -> int:
        """SIGTERM, and wait until it has ended; returns its exit status."""
        member.again = again
        children = _children(member.pid)
        with suppress(ProcessLookupError):
            member.process.send_signal(signal.SIGTERM)
        try:
            status = member.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill(member)
            return member.process.wait()
        with self._lock:
            self.deaths += [Death(pid, time.monotonic(), kill=False) for pid in children]
        return status

    def close(self) -> None:
        """End everything: SIGTERM for all at once, SIGKILL for what does not follow."""
        self._closing.set()
        with self._lock:
            left = [member for member in self.members if member.alive]
        for member in left:
            _signal_group(member.pid, signal.SIGCONT)
            with suppress(ProcessLookupError):
                member.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS
        for member in left:
            with suppress(subprocess.TimeoutExpired):
                member.process.wait(max(0.1, end - time.monotonic()))
            _signal_group(member.pid, signal.SIGKILL)
            member.process.wait()
        self._over.set()
        self._watcher.join(timeout=5)

    def _watch(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            with self._lock:
                ended = [member for member in self.members if not member.alive]
            for member in ended:
                self._ended(member)

    def _ended(self, member: Member) -> None:
        with self._lock:
            self._died(member, time.monotonic(), kill=member.process.returncode == -signal.SIGKILL)
            self.members.remove(member)
            _signal_group(member.pid, signal.SIGKILL)
        killed = member.process.returncode == -signal.SIGKILL
        young = not killed and time.monotonic() - member.born < 5.0  # it can't start: try again, but not in a loop
        if member.again and not self._closing.wait(2.0 if young else RESPAWN_SECONDS):
            self.start(member.name, member.role, member.command)

    def _died(self, member: Member, at: float, *, kill: bool) -> None:
        """Note a death once."""
        if not member.seen:
            member.seen = True
            self.losses += kill
            self.deaths.append(Death(member.pid, at, kill))


def _children(pid: int) -> list[int]:
    try:
        return sorted(child.pid for child in psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a session's processes; each member leads a session of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
