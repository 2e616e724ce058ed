"""The processes of one generation of an isolated plugin: as many as it may have, started as steps need them."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import psutil

from lumia.errors import LumiaError
from lumia.isolation import limits_of
from lumia.isolation_env import environment
from lumia.plugin import Plugin
from tasks.isolated.process import MIB, Process, ending

START_SECONDS = 30.0
"""How long a process may take to load the plugin."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a process is started again after one that could not begin; doubled each time."""
MAX_PROCESSES = 64
"""How many processes one of them may have with all it starts."""
WORN = 0.75
"""An idle process with more than this share of its memory is replaced before it fails a step that can't help it."""
WORKER_ENDS = "its worker ends"
LOOK_SECONDS = 0.5
"""How often all that was started is measured, too; a process by itself is at each turn."""

log = logging.getLogger("lumia")


class Pool:
    """Processes that are started by `turn` (called by one thread that stays), taken and given back by others.

    broken: why the newest process could not begin, "" once one has.
    """

    def __init__(self, root: Path, plugin: Plugin) -> None:
        self._root, self.plugin = root, plugin
        self.limits = limits_of(plugin.manifest)
        self.broken = ""
        self._changed = threading.Condition()
        self._starting: list[Process] = []
        self._free: list[Process] = []
        self._busy: list[Process] = []
        self._leaving: list[Process] = []
        self._waiting = 0
        self._failures = 0
        self._next_start = 0.0
        self._next_look = 0.0
        self._closed = False

    # --- for the threads that execute steps

    def take(self, seconds: float) -> Process | None:
        """Return a process to give a step to, None when there is none within `seconds`."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._free or self._closed, seconds)
                if not self._free:
                    return None
                process = self._free.pop()
                self._busy.append(process)
                return process
            finally:
                self._waiting -= 1

    def give(self, process: Process) -> None:
        """Take back a process that is ready for another step."""
        with self._changed:
            if not self._closed:
                self._busy.remove(process)
                self._free.append(process)
                self._changed.notify()
                return
        self.drop(process)

    def drop(self, process: Process) -> int:
        """End a process that is not to be used again; return its exit code."""
        code = process.bury()
        with self._changed:
            for kept in (self._starting, self._free, self._busy, self._leaving):
                if process in kept:
                    kept.remove(process)
        return code

    def wait_for_one(self, seconds: float) -> bool:
        """Wait until a process is free, or the newest could not begin; tell whether one is free."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._free or self.broken or self._closed, seconds)
                return bool(self._free)
            finally:
                self._waiting -= 1

    @property
    def pids(self) -> set[int]:
        """Return the ids of its processes, of those that unload the plugin too."""
        with self._changed:
            return {one.pid for one in (*self._starting, *self._free, *self._busy, *self._leaving)}

    @property
    def usable(self) -> bool:
        """Tell whether it has processes, or may come to have some."""
        with self._changed:
            return not self._closed and (not self.broken or bool(self._free or self._busy))

    @property
    def closed(self) -> bool:
        """Tell whether it is given no more steps."""
        return self._closed

    def close(self) -> None:
        """End all processes: the idle ones unload their plugin, the others have had their time."""
        with self._changed:
            self._closed = True
            starting, busy = list(self._starting), list(self._busy)
            self._leaving += self._free
            self._free.clear()
            leaving = list(self._leaving)
            self._changed.notify_all()
        for process in (*starting, *busy):
            process.kill(WORKER_ENDS)
        for process in starting:
            self.drop(process)
        for process in leaving:
            process.close()
            self.drop(process)

    # --- for the one thread that looks after them

    def turn(self) -> None:
        """Start what is wanted, hear from what starts, measure, and replace what is gone or worn.

        While it is closed from another thread, it only sees to the limits of the processes that still unload.
        """
        now = time.monotonic()
        thorough = now >= self._next_look
        if thorough:
            self._next_look = now + LOOK_SECONDS
        with self._changed:
            starting, free, busy = list(self._starting), list(self._free), [*self._busy, *self._leaving]
        for process in starting:
            self._hear(process)
        for process in busy:
            if why := self._excess(process, 1.0, thorough=thorough):
                log.warning("%s: %s; it is ended", self.plugin.name, why)
                process.kill(why)
        for process in free:
            self._look_after_idle(process, thorough=thorough)
        self._start_if_wanted()

    def _hear(self, process: Process) -> None:
        told = process.told(0.0)
        if told is not None and "ready" in told:
            with self._changed:
                if process in self._starting and not self._closed:
                    self._starting.remove(process)
                    self._free.append(process)
                self.broken, self._failures = "", 0
                self._changed.notify_all()
            return
        late = time.monotonic() - process.started > START_SECONDS
        why = self._excess(process, 1.0, thorough=False)
        if told is None and process.alive and not late and not why:
            return
        code = self.drop(process)
        if process.ended_for == WORKER_ENDS:
            return
        why = why or process.ended_for
        if told is not None and "failed" in told:
            why = str(told["failed"])
        elif late:
            why = f"it did not load within {START_SECONDS:g} s"
        self._failed(why or f"loading it {ending(code)}")

    def _failed(self, why: str) -> None:
        log.error("a process of %s can't begin: %s", self.plugin.name, why)
        with self._changed:
            self.broken = why
            self._next_start = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._changed.notify_all()

    def _look_after_idle(self, process: Process, *, thorough: bool) -> None:
        """Replace an idle process that is gone or worn, unless a step has just taken it."""
        if process.alive and not (thorough and not process.fresh and self._excess(process, WORN, thorough=True)):
            return
        with self._changed:
            if process not in self._free:
                return
            self._free.remove(process)
            self._leaving.append(process)
        if process.alive:
            # It may take seconds, in which others could exceed their memory.
            threading.Thread(target=self._unload, args=(process,), name="lumia-unloading", daemon=True).start()
        else:
            log.warning("%s: an idle process of it %s", self.plugin.name, ending(self.drop(process)))

    def _unload(self, process: Process) -> None:
        process.close()
        self.drop(process)

    def _excess(self, process: Process, share: float, *, thorough: bool) -> str:
        """Say what a process uses more of than it may, "" when it doesn't."""
        limit = self.limits.memory_mb * MIB * share
        try:
            count, memory = 1, process.memory()
            if thorough or memory > limit:
                memory, count = process.used()
        except psutil.Error:
            return ""
        if memory > limit:
            return f"its process used {memory // MIB} MiB of memory, more than its {self.limits.memory_mb} MiB"
        if count > MAX_PROCESSES * share:
            return f"its process had {count} processes, more than {MAX_PROCESSES}"
        return ""

    def _start_if_wanted(self) -> None:
        with self._changed:
            count = len(self._starting) + len(self._free) + len(self._busy)
            wanted = len(self._busy) + max(1, self._waiting) if not self._free else count
            due = time.monotonic() >= self._next_start and not self._closed
            short = count < min(wanted, self.limits.concurrency)
        if not (due and short):
            return
        try:
            process = Process(self._root, self.plugin, environment(self._root, self.plugin.manifest))
        except (OSError, LumiaError) as error:
            self._failed(str(error))
            return
        with self._changed:
            self._starting.append(process)
