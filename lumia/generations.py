"""The generations of plugins that one process has beside those at work (DESIGN §5; docs/hot-reload.md).

Prepared ones wait for their deployment to be decided, older ones for the last run that was planned with them. Steps of
either can be executed at any time, so it doesn't matter at which moment a process switches.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from lumia.boxwire import naming
from lumia.errors import ConfigError
from lumia.finder import FINDER
from lumia.manifest import underscored
from lumia.plugin import announce, let_go

if TYPE_CHECKING:
    from lumia.config_schema import Schema
    from lumia.plugin import Plugin, PluginFailure, PluginSet
    from lumia.routes import PlanStep, RouteTable
    from lumia.runtime import Loaded, Runtime

ASK_SECONDS = 1.0


@dataclass(frozen=True)
class Changed:
    """What a switch has changed: the generations that are at work no more, and those that are now."""

    gone: tuple[Plugin, ...] = ()
    fresh: tuple[Plugin, ...] = ()


@dataclass(frozen=True)
class _Older:
    """A generation that is at work no more. of: the set it was started in. modules: its own, under their names."""

    of: PluginSet
    plugin: Plugin
    modules: dict[str, ModuleType]
    schema: Schema | None


@dataclass
class _Prepared:
    """What waits for its deployment. modules: package → the fresh modules, whose names the old ones still have.

    layers: of Python packages, on the import path before.
    """

    plugins: PluginSet
    table: RouteTable
    before: dict[str, Schema]
    modules: dict[str, dict[str, ModuleType]]
    layers: tuple[str, ...]


class Generations:
    """Those of one bot in one process. Changed by one thread; `find` is for all."""

    def __init__(self, bot: Runtime) -> None:
        self._bot = bot
        self._beside: dict[tuple[str, str], Loaded] = {}
        self._prepared: _Prepared | None = None
        self._older: list[_Older] = []
        self._named: dict[tuple[str, str], dict[str, ModuleType]] = {}
        self._others: frozenset[str] = frozenset()
        self._asked_at = -ASK_SECONDS
        self.needed: Callable[[], None] = lambda: None
        """Called when a step of a prepared generation is executed: its deployment is active then."""

    def find(self, step: PlanStep) -> Loaded | None:
        """Return the handler of a plan's step from a generation beside those at work."""
        found = self._beside.get((step.handler, step.generation))
        if found is not None and self._prepared is not None:
            self.needed()
        return found

    def naming(self, loaded: Loaded) -> AbstractContextManager[None]:
        """Return the block in which Boxes know the classes of a handler's generation by their names."""
        if not self._named:
            return nullcontext()
        modules = self._named.get((loaded.plugin, loaded.generation))
        return nullcontext() if modules is None else naming(modules)

    @property
    def older(self) -> list[Plugin]:
        """Return the generations that are kept for the runs planned with them."""
        return [one.plugin for one in self._older]

    @property
    def prepared(self) -> RouteTable | None:
        """Return the routes of what is prepared, None when nothing is."""
        return self._prepared.table if self._prepared is not None else None

    def held(self) -> tuple[str, ...]:
        """Return `plugin generation` of everything this process can execute."""
        at_work = list(self._bot.plugins.plugins.values()) if self._bot.plugins is not None else []
        new = list(self._prepared.plugins.plugins.values()) if self._prepared is not None else []
        return tuple(
            sorted(
                {
                    f"{underscored(one.name)} {one.generation}"
                    for one in (*at_work, *new, *self.older)
                    if not one.elsewhere
                }
            )
        )

    def is_elsewhere(self, step: PlanStep) -> bool:
        """Tell whether another live process has the generation of a plan's step."""
        now = time.monotonic()
        if now >= self._asked_at + ASK_SECONDS:
            self._asked_at = now
            members = self._bot.transport.deployments().members()
            self._others = frozenset(held for one in members if one.name != self._bot.worker for held in one.holds)
        return f"{step.handler.partition('.')[0]} {step.generation}" in self._others

    # --- preparing

    def prepare(self, load: Callable[[PluginSet], PluginSet], *, start: bool = True) -> list[PluginFailure]:
        """Load what is to be at work next, beside what is; returns why it can't be, and then nothing has changed.

        load: returns a set that takes over what hasn't changed from the one it is given, not started. start: run
        `on_load`. What had failed before in the same way is no reason.
        """
        from lumia.pkg import import_path

        assert self._bot.plugins is not None and self._bot.services is not None and self._prepared is None
        path = import_path.on_path(self._bot.root)
        now, config = self._bot.plugins, self._bot.config
        before = {name: config.schema(name) for name in config.plugins()} if config is not None else {}
        now.older = {(one.plugin.name, one.plugin.generation): (one.plugin, one.modules) for one in self._older}
        # Loading takes the names for a while; Boxes of runs in flight are of what is at work.
        names = {name: module for plugin in now.plugins.values() for name, module in _modules(plugin).items()}
        self._named = self._older_names() | dict.fromkeys(_keys(now.plugins.values()), names)
        try:
            new = load(now)
        except BaseException:
            import_path.back_to(self._bot.root, path)
            raise
        new_names = {plugin.name for plugin in new.plugins.values()}
        fresh = [plugin for plugin in new.plugins.values() if now.plugins.get(plugin.name) is not plugin]
        self._adopt_schemas(fresh)
        self._bot.services.hold([(one.name, one.generation) for one in fresh], set(now.plugins) - new_names)
        if start:
            with self._bot.activated():
                new.start()
        known = {(failure.name, failure.stage, failure.message) for failure in now.failures}
        bad = [one for one in new.failures if (one.name, one.stage, one.message) not in known]
        if bad:
            self._undo(new, before, path)
            return bad
        # Boxes of runs in flight name classes by module: until the switch the names are those of what is at work.
        fresh = [plugin for plugin in fresh if new.plugins.get(plugin.name) is plugin]
        modules = {plugin.package: FINDER.forget(plugin.package) for plugin in fresh}
        new.restore()
        for plugin in now.plugins.values():
            FINDER.serve(plugin.package, plugin.folder)
        self._prepared = _Prepared(new, self._bot.describe(new), before, modules, path)
        names = {name: module for of_one in modules.values() for name, module in of_one.items()}
        self._named = self._older_names() | dict.fromkeys(_keys(fresh), names)
        self._beside = self._beside | _by_generation(self._bot, fresh)
        return []

    def _adopt_schemas(self, fresh: Collection[Plugin]) -> None:
        """A generation that is at work again has the settings it had then."""
        for one in self._older:
            if one.plugin in fresh and one.schema is not None and self._bot.config is not None:
                self._bot.config.file(one.plugin.name).adopt(one.schema)

    def drop(self) -> None:
        """Forget what was prepared: its deployment was rolled back."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        assert self._bot.plugins is not None
        kept = [one.plugin for one in self._older]
        self._beside = _by_generation(self._bot, kept)
        self._named = self._older_names()
        self._undo(prepared.plugins, prepared.before, prepared.layers)

    def _undo(self, new: PluginSet, before: dict[str, Schema], path: Collection[str]) -> None:
        from lumia.pkg import import_path

        assert self._bot.plugins is not None and self._bot.services is not None
        now = self._bot.plugins
        with self._bot.activated():
            for plugin in reversed(list(new.plugins.values())):
                if plugin in self.older:
                    new.put_back(plugin, unload=False)
                elif now.plugins.get(plugin.name) is not plugin and (failure := new.put_back(plugin)) is not None:
                    self._bot.log.error("%s", failure)
        new.restore()
        self._bot.services.release(kept=False)
        for plugin in now.plugins.values():
            FINDER.serve(plugin.package, plugin.folder)
            announce(self._bot.services, plugin.manifest)
        self._restore_schemas(before)
        self._named = self._older_names()
        import_path.back_to(self._bot.root, path)
        gc.collect()

    def _restore_schemas(self, before: dict[str, Schema]) -> None:
        config = self._bot.config
        for name, schema in before.items():
            try:
                if config is not None and config.schema(name) is not schema:
                    config.file(name).adopt(schema)
            except ConfigError as error:
                self._bot.log.error("settings of %s: %s", name, error)

    # --- switching

    def switch(self) -> Changed:
        """Put what was prepared to work; what it replaces is kept until `retire`."""
        prepared = self._prepared
        if prepared is None:
            return Changed()
        assert self._bot.plugins is not None and self._bot.services is not None
        now, new = self._bot.plugins, prepared.plugins
        gone = tuple(one for one in now.plugins.values() if new.plugins.get(one.name) is not one)
        fresh = tuple(one for one in new.plugins.values() if now.plugins.get(one.name) is not one)
        self._older = [one for one in self._older if one.plugin not in fresh]
        self._older += [_Older(now, one, _modules(one), prepared.before.get(one.name)) for one in gone]
        self._beside = self._beside | _by_generation(self._bot, gone)
        names = {name: module for of_one in prepared.modules.values() for name, module in of_one.items()}
        self._named = self._older_names() | dict.fromkeys(_keys(fresh), names)
        for one in fresh:
            FINDER.forget(one.package)
            FINDER.serve(one.package, one.folder)
            FINDER.restore(prepared.modules[one.package])
        self._bot.install(new)
        self._named = self._older_names()
        self._beside = _by_generation(self._bot, self.older)
        self._bot.services.release()
        now.older = {}
        self._prepared = None
        return Changed(gone, fresh)

    # --- retiring

    def is_idle(self, in_use: Collection[tuple[str, str]], busy: Callable[[Plugin], bool] = lambda _: False) -> bool:
        """Tell whether `retire` would unload something."""
        return any(not self._is_needed(one, in_use) and not busy(one) for one in self.older)

    def retire(self, in_use: Collection[tuple[str, str]], busy: Callable[[Plugin], bool] = lambda _: False) -> int:
        """Unload the older generations that no run needs, dependents first; returns how many were.

        in_use: (handler, generation) of the plans in flight. busy: tells of one that is needed for something else.
        """
        done = [one for one in self._older if not self._is_needed(one.plugin, in_use) and not busy(one.plugin)]
        if not done:
            return 0
        self._older = [one for one in self._older if one not in done]
        self._beside = _by_generation(self._bot, self.older)
        self._named = self._older_names()
        with self._bot.activated():
            for one in reversed(done):
                self._unload(one)
        count = len(done)
        del done, one
        gc.collect()  # functions and their modules refer to each other
        return count

    def _older_names(self) -> dict[tuple[str, str], dict[str, ModuleType]]:
        """Return the modules that each older generation knows by name: its own, and those it was loaded with."""
        found = {}
        for one in self._older:
            together = [other.modules for other in self._older if other.of is one.of]
            found[one.plugin.name, one.plugin.generation] = {
                name: module for modules in (*together, one.modules) for name, module in modules.items()
            }
        return found

    def _is_needed(self, plugin: Plugin, in_use: Collection[tuple[str, str]]) -> bool:
        if any((handler.name, plugin.generation) in in_use for handler in plugin.handlers):
            return True
        dependents = (one.plugin for one in self._older if plugin.name in one.plugin.manifest.dependencies)
        return any(self._is_needed(one, in_use) for one in dependents)

    def _unload(self, one: _Older) -> None:
        failure = one.of.unload(one.plugin)
        if failure is not None:
            self._bot.log.error("%s", failure)
        for module in one.modules.values():
            let_go(module)
        one.modules.clear()

    def close(self) -> None:
        """Unload everything but what is at work."""
        self.drop()
        self.retire(())


def _by_generation(bot: Runtime, plugins: Collection[Plugin]) -> dict[tuple[str, str], Loaded]:
    return {(one.name, one.generation): one for plugin in plugins for one in bot.loaded(plugin)}


def _keys(plugins: Iterable[Plugin]) -> list[tuple[str, str]]:
    return [(plugin.name, plugin.generation) for plugin in plugins]


def _modules(plugin: Plugin) -> dict[str, ModuleType]:
    """Return the modules of a plugin that is at work."""
    return {name: module for name, module in list(sys.modules.items()) if f"{name}.".startswith(f"{plugin.package}.")}
