"""The pools of a worker, one for each generation that is in use, and the thread that looks after them."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from lumia.errors import PluginLoadError
from lumia.plugin import Plugin
from tasks.isolated.pool import START_SECONDS, Pool
from tasks.isolated.process import adopt_orphans, strays

TURN_SECONDS = 0.1
STRAYS_SECONDS = 1.0

log = logging.getLogger("lumia")


class Pools:
    """Implements `lumia.isolation.Server`: a generation of the plugin begins and ends with its pool."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pools: dict[str, Pool] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._next_strays = 0.0

    def start(self, plugin: Plugin) -> None:
        """Begin a generation; raises `PluginLoadError` when its first process can't begin."""
        pool = self.adopt(plugin)
        if pool.wait_for_one(START_SECONDS + 5.0):
            return
        why = pool.broken or "its process did not begin in time"
        self.stop(plugin)
        raise PluginLoadError(why)

    def adopt(self, plugin: Plugin) -> Pool:
        """Begin a generation without waiting: its processes are tried again until they can begin."""
        pool = self._pools.setdefault(plugin.generation, Pool(self._root, plugin))
        if self._thread is None:
            adopt_orphans()
            self._thread = threading.Thread(target=self._look_after, name="lumia-isolated", daemon=True)
            self._thread.start()
        return pool

    def stop(self, plugin: Plugin) -> None:
        """End a generation and its processes."""
        pool = self._pools.get(plugin.generation)
        if pool is not None:
            self._end(plugin.generation, pool)

    def close(self) -> None:
        """End everything. The thread goes last: the system ends the processes that it has started with it."""
        for generation, pool in list(self._pools.items()):
            self._end(generation, pool)
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._end_strays()

    def _end(self, generation: str, pool: Pool) -> None:
        """End a pool. It stays known meanwhile: its processes unload the plugin, and must not be taken for strays."""
        try:
            pool.close()
        finally:
            self._pools.pop(generation, None)

    def of(self, generation: str = "") -> Pool | None:
        """Return the pool for a step planned with `generation`: that one's, else the newest."""
        pools = self._pools
        exact = pools.get(generation)
        if exact is not None and exact.usable:
            return exact
        return next((pool for pool in reversed(list(pools.values())) if not pool.closed), None)

    def _look_after(self) -> None:
        while not self._over.wait(TURN_SECONDS):
            try:
                for pool in list(self._pools.values()):
                    pool.turn()
                if time.monotonic() >= self._next_strays:
                    self._next_strays = time.monotonic() + STRAYS_SECONDS
                    self._end_strays()
            except Exception:
                log.exception("looking after the plugin's processes failed; the next turn tries again")

    def _end_strays(self) -> None:
        """End what a process of the plugin has left behind, or sent away to be nobody's child."""
        known = set().union(*(pool.pids for pool in list(self._pools.values())))
        for one in strays(known):
            with suppress(psutil.Error):
                if one.status() != psutil.STATUS_ZOMBIE:
                    log.warning("ended process %d (%s), left behind by a process of the plugin", one.pid, one.name())
                for below in (*one.children(recursive=True), one):
                    below.kill()
                one.wait(timeout=1)
