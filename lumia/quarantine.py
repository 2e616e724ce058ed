"""Plugins that end every process that loads them are left out, so that the bot starts (DESIGN §1.5).

A version of a plugin during whose import or `on_load` processes ended `LOSSES` times within `WITHIN` seconds is
quarantined in this bot root: not loaded again before it is released, or its files change. See docs/plugins.md.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lumia.discovery import digest, discover
from lumia.errors import PluginLoadError
from lumia.loading import IMPORT, PROBE, Mark, amend, boot, marked, marks, remove

LOSSES, HANGS = 3, 2
"""Processes that have to end before a version is quarantined: in any way, or because the import took too long."""
WITHIN = 3600.0
"""Seconds within which they have to."""
STAGE = "quarantine"
"""The stage of a failure that says so."""
HUNG = 70
"""Exit code of a process that ends because an import doesn't."""
SLOW = 60.0
"""Seconds after which it is worth telling what is still being loaded."""
STUCK = 15.0
"""Seconds after which a look doesn't try an import that another process is still at."""
_LOOKS = 1.0


class QuarantinedError(PluginLoadError):
    """A plugin isn't loaded, since this version of it has ended the processes that did."""


@dataclass(frozen=True)
class Suspect:
    """A version of a plugin that processes didn't survive. losses: the marks of those, oldest first."""

    plugin: str
    version: str
    losses: tuple[Mark, ...]

    @property
    def quarantined(self) -> bool:
        """Tell whether it has to stay out."""
        hung = [mark for mark in self.losses if mark.hung]
        return _often(self.losses, LOSSES) or _often(hung, HANGS)

    def __str__(self) -> str:
        last = self.losses[-1]
        who = "1 process" if len(self.losses) == 1 else f"{len(self.losses)} processes"
        stages = " or ".join(sorted({one.doing for one in self.losses}))
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(last.since))
        how = f": {last.ended}" if last.ended else ""
        return f"{who} ended during its {stages}, the last (pid {last.process}) at {when}{how}{self._killed}"

    @property
    def _killed(self) -> str:
        """Say how many ended, or may have, by a signal that may be no doing of the plugin's."""
        killed = sum("SIGKILL" in mark.ended for mark in self.losses)
        unseen = sum(not mark.ended for mark in self.losses)
        if not killed and not unseen:
            return ""
        how = f"{killed} killed by" if killed else f"nobody saw how {unseen} ended, maybe by"
        return f" ({how} signal 9, SIGKILL: perhaps the kernel's, for want of memory; `dmesg` tells)"

    @property
    def reason(self) -> str:
        """Return why it is left out, and the way out."""
        return (
            f"quarantined: {self}; this version is not loaded any more. Install another one, or mend what it lacked "
            f"and try it again with `lumia plugins release {self.plugin}`"
        )


class Guard:
    """Watches over the plugins that one process loads.

    limit: seconds an import may take before the process ends itself, 0 for ever; `on_load` may take as long as it
    needs, since models are loaded there.
    """

    def __init__(self, root: Path, limit: float = 0.0, log: logging.Logger | None = None) -> None:
        self._root, self._limit = root, limit
        self._log = log or logging.getLogger("lumia")
        self._now: Mark | None = None
        self._done = threading.Event()
        self._watching: threading.Thread | None = None
        _tidy(marks(root))

    def check(self, plugin: str, version: str) -> None:
        """Raise `QuarantinedError` when this version of a plugin has to stay out, `PluginLoadError` of this look."""
        found = [mark for mark in marks(self._root, plugin) if mark.version == version]
        if probe := os.environ.get(PROBE):
            _check_in_look(found, probe)
        losses = tuple(mark for mark in found if _counts(mark))
        if losses and (suspect := Suspect(plugin, version, losses)).quarantined:
            raise QuarantinedError(suspect.reason)

    @contextmanager
    def over(self, plugin: str, version: str, doing: str) -> Iterator[None]:
        """Leave a mark while the block runs a plugin's code; an import that takes too long ends this process."""
        limit = self._limit if doing == IMPORT else 0.0
        with marked(self._root, plugin, version, doing, limit) as mark:
            self._now = mark
            if limit and mark is not None and self._watching is None:
                self._watching = threading.Thread(target=self._watch, name="lumia-imports", daemon=True)
                self._watching.start()
            try:
                yield
            finally:
                self._now = None

    def rest(self) -> None:
        """Watch no more imports, until the next one."""
        if self._watching is not None:
            self._done.set()
            self._watching.join()
            self._watching = None
            self._done = threading.Event()

    def _watch(self) -> None:
        told: Mark | None = None
        while not self._done.wait(min(_LOOKS, self._limit / 4)):
            mark = self._now
            if mark is None or mark.doing != IMPORT:
                continue
            if mark.age >= self._limit:
                self._leave(mark)
            if mark.age >= self._limit / 2 and told is not mark:
                told = mark
                self._log.warning("plugin %s: its import has taken %.0f s so far", mark.plugin, mark.age)

    def _leave(self, mark: Mark) -> None:
        amend(mark, ended=too_long(self._limit), hung=True)
        self._log.error(
            "plugin %s: its import has taken more than %g s ([plugins] import_limit), so this process ends",
            mark.plugin, self._limit,
        )  # fmt: skip
        for handler in logging.getLogger().handlers:
            handler.flush()
        os._exit(HUNG)


def too_long(limit: float) -> str:
    """Say why a process was ended whose import didn't."""
    return f"the import had taken {limit:g} s ([plugins] import_limit)"


def suspects(base: Path, root: Path) -> list[Suspect]:
    """Return the plugins of a bot root, as they are there now, that processes didn't survive; by name."""
    found = [mark for mark in marks(root) if _counts(mark)]
    if not found:
        return []
    here = {plugin.name: plugin.folder for plugin in discover(base, root)}
    grouped = _by_version(mark for mark in found if mark.plugin in here)
    return [one for one in grouped if digest(here[one.plugin]) in re.split(r"[+.]", one.version)]


def slow(root: Path) -> list[Mark]:
    """Return what processes have been loading for more than `SLOW` seconds."""
    return [mark for mark in marks(root) if mark.alive and mark.age >= SLOW]


def release(root: Path, plugin: str) -> int:
    """Forget the processes that a plugin has ended, so that it is loaded again; returns how many they were."""
    found = [mark for mark in marks(root, plugin) if not mark.alive]
    for mark in found:
        remove(mark)
    return len(found)


def _check_in_look(found: Iterable[Mark], probe: str) -> None:
    """Leave out what has ended an earlier process of this look, and what another process can't get done with."""
    for mark in found:
        if mark.probe == probe and not mark.alive:
            raise PluginLoadError(f"the process that looked at it ended during its {mark.doing}: {mark.ended}")
        if mark.alive and mark.doing == IMPORT and mark.age >= STUCK:
            raise PluginLoadError(
                f"its import has been going on in process {mark.process} for {mark.age:.0f} s, so it isn't tried here"
            )


def _often(losses: Sequence[Mark], count: int) -> bool:
    times = [mark.since for mark in losses]
    return any(last - first <= WITHIN for first, last in zip(times, times[count - 1 :], strict=False))


def _counts(mark: Mark) -> bool:
    return not mark.alive and not mark.probe and mark.boot in ("", boot())


def _by_version(found: Iterable[Mark]) -> list[Suspect]:
    grouped: dict[tuple[str, str], list[Mark]] = {}
    for mark in found:
        grouped.setdefault((mark.plugin, mark.version), []).append(mark)
    return [Suspect(name, version, tuple(losses)) for (name, version), losses in sorted(grouped.items())]


def _tidy(found: Iterable[Mark]) -> None:
    """Keep what counts, also after the machine's next start, and take the rest away.

    That is what a start of the machine ended, what was left by looks that nobody judged, and what is rare and old.
    """
    dead = [mark for mark in found if not mark.alive]
    for mark in dead:
        if mark.probe:
            if mark.age > WITHIN:
                remove(mark)
        elif mark.boot not in ("", boot()):
            remove(mark)
        elif mark.boot:
            amend(mark, boot="")
    for suspect in _by_version(mark for mark in dead if _counts(mark)):
        if not suspect.quarantined:
            for mark in suspect.losses:
                if mark.age > WITHIN:
                    remove(mark)
