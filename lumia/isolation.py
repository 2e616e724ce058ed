"""Isolated plugins: `"isolation": "process"` in a manifest (docs/isolation.md).

Their handlers run in processes of their own, with an environment of their own, on the queue `plugin.<name>`. All other
processes of the bot hold a stand-in: they know its routes and never import it. This module decides what is what; the
processes are made in `tasks.isolated`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from lumia import config as configuration
from lumia.errors import PluginLoadError
from lumia.manifest import Manifest, ProcessLimits
from lumia.marks import ISOLATED_PREFIX, Mark
from lumia.paths import ISOLATED, ISOLATED_WORKER
from lumia.plugin import Handler, Plugin, PluginFailure, PluginSet
from lumia.resolve import Candidate


def queue_of(plugin: str) -> str:
    """Return the queue of an isolated plugin's steps."""
    return f"{ISOLATED_PREFIX}{plugin}"


def isolated_queues(plugins: PluginSet | None) -> set[str]:
    """Return the queues whose steps other processes execute, as far as this one knows."""
    found = plugins.plugins.values() if plugins is not None else ()
    return {queue_of(plugin.name) for plugin in found if plugin.elsewhere and plugin.manifest.isolation is not None}


def limits_of(manifest: Manifest) -> ProcessLimits:
    """Return the limits of an isolated plugin's processes."""
    return manifest.limits or ProcessLimits()


class Server(Protocol):
    """Who executes a generation of an isolated plugin in this process's children (`tasks.isolated.Pools`)."""

    def start(self, plugin: Plugin) -> None:
        """Make its processes; raises `PluginLoadError` when they can't begin to work."""

    def stop(self, plugin: Plugin) -> None:
        """End its processes."""


class FailedElsewhereError(PluginLoadError):
    """A plugin failed in the process that was to describe it; `failure` says where and why."""

    def __init__(self, failure: PluginFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass(frozen=True)
class Description:
    """What a process that has imported an isolated plugin tells the others. declared: its settings in code."""

    handlers: tuple[Handler, ...]
    declared: Mapping[str, configuration.Field]


_server: Server | None = None


def serve_with(server: Server | None) -> None:
    """Make `server` the one of this process; a process looks after one isolated plugin."""
    global _server
    _server = server


@dataclass(frozen=True)
class Isolation:
    """Which plugins this process imports, and what stands for the others.

    inside: it executes the plugin `only`. serving: it looks after the processes of `only`.
    """

    root: Path
    only: str | None = None
    inside: bool = False
    serving: bool = False

    @classmethod
    def here(cls, root: Path) -> Isolation:
        """Return what counts for this process, by its environment."""
        inside, serving = os.environ.get(ISOLATED, ""), os.environ.get(ISOLATED_WORKER, "")
        return cls(root, inside or serving or None, bool(inside), bool(serving) and not inside)

    def stand_in(self, candidate: Candidate, generation: str) -> tuple[Plugin, dict[str, configuration.Field]] | None:
        """Return what stands for a plugin in this process, and what it declares; None for one that is imported here.

        Raises `PluginLoadError` when an isolated plugin can't be loaded in its own environment.
        """
        manifest = candidate.manifest
        if self.only is not None and candidate.name != self.only:
            return _bare(candidate, generation, _ELSEWHERE.format(self.only)), {}
        if self.inside or manifest.isolation is None:
            return None
        from lumia.isolation_describing import described

        told = described(self.root, candidate, generation)
        server = _server if self.serving else None
        plugin = _bare(candidate, generation, _APART if server is None else "")
        if server is not None:
            _serve(plugin, server)
        return replace(plugin, handlers=_limited(told.handlers, manifest)), dict(told.declared)


_APART = (
    "it runs in processes of its own (isolation), and services don't cross from one to another; meet through events"
)
_ELSEWHERE = "it is in the bot's processes, and {} runs in its own (isolation); meet through events and the store"


def _bare(candidate: Candidate, generation: str, why: str) -> Plugin:
    found = candidate.found
    module = ModuleType(f"{found.package}.plugin", why)
    module.__file__ = str(found.folder / candidate.manifest.main)
    return Plugin(
        candidate.name, candidate.version, generation, candidate.manifest, found.folder, module.__name__, module,
        elsewhere=why,
    )  # fmt: skip


def _serve(plugin: Plugin, server: Server) -> None:
    """Let the plugin's hooks begin and end its processes: a generation lives as long here as an imported one."""
    hooks: dict[str, Callable[[], None]] = {
        "on_load": lambda: server.start(plugin),
        "on_unload": lambda: server.stop(plugin),
    }
    vars(plugin.module).update(hooks)


def _limited(handlers: tuple[Handler, ...], manifest: Manifest) -> tuple[Handler, ...]:
    return tuple(replace(handler, mark=_on_its_queue(handler.mark, manifest)) for handler in handlers)


def _on_its_queue(mark: Mark, manifest: Manifest) -> Mark:
    options: dict[str, Any] = {**mark.options, "queue": queue_of(manifest.name), "hard": False}
    seconds = limits_of(manifest).seconds
    if seconds is not None:
        options["timeout"] = min(seconds, options.get("timeout") or seconds)
    return replace(mark, options=options)


def apart(*_: Any) -> None:
    """Stand for a handler of an isolated plugin where it isn't imported."""
    raise PluginLoadError("this handler's plugin is isolated: its steps are executed by `lumia isolated NAME`")
