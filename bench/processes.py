"""Worker processes of a measurement: started together, ended by their ids, their CPU time read from the system."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from lumia.paths import base

END_SECONDS = 30.0
POLL_SECONDS = 0.005


class BenchError(Exception):
    """A measurement can't be made; the text says why and where to look."""


@dataclass(frozen=True)
class Group:
    """Processes that run for a block. log: where all of them print."""

    processes: tuple[subprocess.Popen[bytes], ...]
    log: Path

    def check(self) -> None:
        """Raise `BenchError` with the end of the log when one of them has ended."""
        for process in self.processes:
            if process.poll() is not None:
                tail = self.log.read_text(errors="replace")[-600:]
                raise BenchError(f"a worker ended with status {process.returncode}: …{tail}")

    def cpu(self) -> float:
        """Return the CPU seconds that the processes and their children have used so far."""
        return sum(cpu_seconds(process.pid) for process in self.processes)


def cpu_seconds(pid: int) -> float:
    """Return user and system CPU seconds of a process and its living descendants, 0 when it is gone."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
    return total


@contextmanager
def running(commands: Sequence[Sequence[str]], env: Mapping[str, str], log: Path) -> Iterator[Group]:
    """Run processes for a block; they get SIGTERM, and SIGKILL when they don't end in time."""
    processes: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as out:
        try:
            for command in commands:  # one by one, so that those made are ended when the next can't be
                processes += [_popen(command, env, out.fileno())]
            yield Group(tuple(processes), log)
        finally:
            _end(processes)


def _popen(command: Sequence[str], env: Mapping[str, str], out: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(list(command), env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=base())


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    until = time.monotonic() + END_SECONDS
    for process in processes:
        try:
            process.wait(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def wait_until(reached: Callable[[], bool], seconds: float, what: str, group: Group | None = None) -> None:
    """Poll until a condition holds; raises `BenchError` naming it when it doesn't in time or a worker has ended."""
    end = time.monotonic() + seconds
    while not reached():
        if group is not None:
            group.check()
        if time.monotonic() > end:
            where = f"; see {group.log}" if group is not None else ""
            raise BenchError(f"not within {seconds:g} s: {what}{where}")
        time.sleep(POLL_SECONDS)
