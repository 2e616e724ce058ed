"""Workers of isolated plugins: found by the manifests, started and ended as plugins come and go."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lumia.errors import LumiaError
from lumia.marks import ISOLATED_PREFIX
from lumia.paths import CONFIG_FILE, ISOLATED_WORKER
from tasks.supervise.heartbeats import worker_answers
from tasks.supervise.service import Service
from tasks.supervise.services import Place


class IsolatedWorkers:
    """What the workers of this bot's isolated plugins are now; manifests that didn't change are not read again."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._read: dict[Path, tuple[int, Any]] = {}

    def services(self) -> list[Service]:
        """Return the worker of each isolated plugin that is not disabled."""
        off = {str(name).replace("_", "-") for name in _disabled(self._place.root)}
        isolated = (self._isolated(file) for file in self._manifests())
        return [isolated_service(self._place, name, count) for name, count in filter(None, isolated) if name not in off]

    def _manifests(self) -> Iterator[Path]:
        for parent in (self._place.base / "handlers", self._place.base / "adapters", self._place.root / "plugins"):
            yield from sorted(file for file in parent.glob("*/manifest.json") if file.parent.name[0] not in "._")

    def _isolated(self, file: Path) -> tuple[str, int] | None:
        """Return name and concurrency of an isolated plugin, None for any other manifest and for a broken one."""
        with suppress(OSError):
            changed = file.stat().st_mtime_ns
            if self._read.get(file, (0, None))[0] != changed:
                self._read[file] = changed, _looked_at(file)
            found: tuple[str, int] | None = self._read[file][1]
            return found
        return None


def _looked_at(file: Path) -> tuple[str, int] | None:
    with suppress(OSError, ValueError, RecursionError):
        raw = json.loads(file.read_text("utf-8"))
        if isinstance(raw, dict) and raw.get("isolation"):
            from lumia.isolation import limits_of
            from lumia.manifest import load_manifest

            with suppress(LumiaError):
                manifest = load_manifest(file.parent)
                return manifest.name, limits_of(manifest).concurrency
    return None


def _disabled(root: Path) -> list[Any]:
    with suppress(OSError, ValueError):
        found = tomllib.loads((root / CONFIG_FILE).read_text("utf-8")).get("plugins", {}).get("disabled", [])
        return found if isinstance(found, list) else []
    return []


def isolated_service(place: Place, plugin: str, concurrency: int) -> Service:
    """Return the worker of one isolated plugin; the bot is ready without it."""
    return Service(
        name=f"plugin-{plugin}",
        kind="isolated",
        command=place.celery(*isolated_words(plugin, concurrency)),
        probe=lambda pid: worker_answers(place.redis_url, pid),
        after=place.after,
        env=place.env(**{ISOLATED_WORKER: plugin}),
        essential=False,
        grace=30.0,
        stage=2,
    )


def isolated_words(plugin: str, concurrency: int) -> tuple[str, ...]:
    """Return what Celery is told to be the worker of an isolated plugin."""
    common = ("worker", "--loglevel", "INFO", "-E", "--without-gossip", "--without-mingle")
    return (*common, "-n", f"plugin-{plugin}@%h", "-Q", f"{ISOLATED_PREFIX}{plugin}", "-c", str(concurrency))


def make_environments(place: Place, say: Callable[[str], None]) -> None:
    """Make the environments of isolated plugins that have none yet; what fails is said, and stops nothing else."""
    workers = IsolatedWorkers(place)
    names = {service.name.removeprefix("plugin-") for service in workers.services()}
    if not names:
        return
    from lumia.discovery import discover
    from lumia.isolation_env import environment

    for found in discover(place.base, place.root):
        if found.name in names and found.manifest is not None:
            try:
                environment(place.root, found.manifest, say)
            except LumiaError as error:
                say(f"plugin {found.name} can't be started: {error}")
