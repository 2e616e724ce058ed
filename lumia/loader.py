"""Loading plugins: import, collect marks, verify, start (spec §7; DESIGN §3, §5 Generations).

Nothing is registered at import time, so a set of plugins is a value: reload is building a new set and assigning it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from lumia import config as configuration
from lumia.boxwire import GENERATION
from lumia.discovery import Found, discover, generation, unknown_names
from lumia.errors import ConfigSchemaError, DependencyError, ManifestError, PluginLoadError, RegistrationError
from lumia.finder import FINDER, NAMESPACES, install
from lumia.loading import IMPORT
from lumia.manifest import DEFAULT_SCHEMA_FILE, MANIFEST_FILE, Manifest, hyphenated, underscored
from lumia.marks import RESIDENT, Mark, marks_of, verify
from lumia.mcp import KIND
from lumia.plugin import Handler, Plugin, PluginFailure, PluginSet, announce, failure_of, reason_of, shown
from lumia.quarantine import STAGE as QUARANTINE
from lumia.quarantine import Guard, QuarantinedError
from lumia.resolve import Candidate, Selection, select, unmet
from lumia.services import Services

__all__ = [
    "Found",
    "Handler",
    "Loader",
    "Plugin",
    "PluginFailure",
    "PluginSet",
    "discover",
    "start_plugins",
]


class Configuration(Protocol):
    """What the loader needs of the bot's configuration: `lumia.config.ConfigStore` has it."""

    def register(self, plugin_name: str, schema_file: Path | None, declared: dict[str, configuration.Field]) -> Any:
        """Use a plugin's schema file and what it declared; raises `ConfigError`."""


class Elsewhere(Protocol):
    """What the loader asks about plugins that other processes execute: `lumia.isolation.Isolation` knows."""

    @property
    def only(self) -> str | None:
        """Return the one plugin this process is for, None when it is for all."""

    def stand_in(self, candidate: Candidate, generation: str) -> tuple[Plugin, dict[str, configuration.Field]] | None:
        """Return what stands for a plugin here, and the settings it declares; None for one this process imports."""


@dataclass
class _Stage:
    """Where a plugin's loading is: the stage, and the file and line to blame if it is known."""

    name: str = "import"
    at: tuple[str, int | None] | None = None


class Loader:
    """Loads the plugins of `base` (first-party) and of the bot root into this process.

    config: gets each plugin's schema. disabled: names from `[plugins] disabled`. core_version: `lumia.__version__`.
    elsewhere: knows the plugins that are not imported into this process; without it all are. guard: watches over what
    they do to the process, and keeps out those that ended others.
    """

    def __init__(
        self,
        base: Path,
        root: Path,
        *,
        config: Configuration,
        services: Services,
        core_version: str,
        disabled: Collection[str] = (),
        elsewhere: Elsewhere | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._base, self._root = base.absolute(), root.absolute()
        self._config = config
        self._services = services
        self._core_version = core_version
        self._disabled = disabled
        self._elsewhere = elsewhere
        self._guard = guard

    def found(self) -> list[Found]:
        """Return what `discover` finds for this bot."""
        return discover(self._base, self._root, self._disabled)

    def load(
        self, names: Collection[str] | None = None, on_load: bool = True, *, keep: PluginSet | None = None
    ) -> PluginSet:
        """Import and verify plugins, and with `on_load` start them; whatever is wrong with one becomes a failure.

        names: load only these and what they depend on (failures of others are left out). keep: a set whose plugins are
        taken over, running, where their generation hasn't changed. Raises nothing a plugin did but KeyboardInterrupt.
        """
        install(self._base, self._root)
        found = self.found()
        if self._elsewhere is not None and self._elsewhere.only is not None:
            names = {self._elsewhere.only}
        selection = select(found, self._core_version)
        warnings = [*self._unknown(names or (), found), *selection.warnings]
        loaded = PluginSet(self._services, warnings=warnings, guard=self._guard)
        wanted = {plugin.name for plugin in found} if names is None else _closure(names, found)
        self._note_absent(selection, loaded, wanted)
        try:
            for candidate in selection.accepted:
                if candidate.name in wanted:
                    self._load_one(candidate, loaded, keep or PluginSet(self._services))
                else:
                    announce(self._services, candidate.manifest, "it is not loaded in this process")
        finally:
            if self._guard is not None:
                self._guard.rest()
        if on_load:
            loaded.start()
        return loaded

    def _unknown(self, names: Collection[str], found: list[Found]) -> list[str]:
        off = (f"config/lumia.toml, [plugins] disabled: {text}" for text in unknown_names(self._disabled, found))
        return [*off, *unknown_names(names, found)]

    def _note_absent(self, selection: Selection, loaded: PluginSet, wanted: Collection[str]) -> None:
        for plugin in selection.disabled:
            self._announce_absent(plugin, "it is disabled in config/lumia.toml")
        for plugin, error in selection.rejected:
            self._announce_absent(plugin, f"it failed to load: {error}")
            if plugin.name in wanted:
                stage = "discover" if plugin.error else "resolve"
                at = (str(plugin.folder / MANIFEST_FILE), None)
                loaded.failures.append(failure_of(plugin.name, stage, plugin.folder, error, at))

    def _announce_absent(self, plugin: Found, absence: str) -> None:
        if plugin.manifest is not None:
            announce(self._services, plugin.manifest, absence)

    def _load_one(self, candidate: Candidate, loaded: PluginSet, keep: PluginSet) -> None:
        stage = _Stage("resolve", (str(candidate.found.folder / MANIFEST_FILE), None))
        try:
            plugin = self._kept_or_built(candidate, loaded, keep, stage)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = getattr(error, "failure", None) or failure_of(
                candidate.name, stage.name, candidate.found.folder, error, stage.at
            )
            loaded.failures.append(failure)
            announce(self._services, candidate.manifest, f"it failed to load: {failure.message}")
            return
        loaded.plugins[plugin.name] = plugin
        if keep.plugins.get(plugin.name) is plugin and plugin.name in keep.started:
            loaded.started[plugin.name] = keep.started[plugin.name]
        elif (plugin.name, plugin.generation) in keep.older:
            loaded.started[plugin.name] = os.getpid()
        announce(self._services, candidate.manifest, plugin.elsewhere)

    def _kept_or_built(self, candidate: Candidate, loaded: PluginSet, keep: PluginSet, stage: _Stage) -> Plugin:
        found = candidate.found
        lost = next((name for name in sorted(candidate.manifest.dependencies) if name not in loaded.plugins), None)
        if lost is not None:
            raise DependencyError(unmet(candidate.name, lost, reason_of(lost, loaded.failures)))
        stage.name, stage.at = "import", (str(found.folder / candidate.manifest.main), None)
        _check_entry(found.folder, candidate.manifest)
        made = _with_dependencies(generation(candidate.version, found.folder), candidate.manifest, loaded)
        kept = keep.plugins.get(candidate.name)
        if kept is not None and (kept.generation, kept.folder) == (made, found.folder):
            return kept
        if self._elsewhere is not None and (there := self._elsewhere.stand_in(candidate, made)) is not None:
            plugin, declared = there
            self._configure(found.folder, candidate.manifest, {candidate.name: declared} if declared else {}, stage)
            return plugin
        previous = FINDER.forget(found.package)
        again, modules = keep.older.get((candidate.name, made), (None, {}))
        if again is not None and again.folder == found.folder:
            FINDER.serve(found.package, found.folder)
            FINDER.restore(modules)
            loaded.replaced[found.package] = previous
            return again
        try:
            self._check(candidate, made, stage)
            built = self._built(candidate, made, loaded, stage)
        except BaseException:
            # The generation that was here stays importable: its runs and stored boxes go on.
            FINDER.forget(found.package)
            FINDER.restore(previous)
            raise
        loaded.replaced[found.package] = previous
        return built

    def _check(self, candidate: Candidate, made: str, stage: _Stage) -> None:
        if self._guard is not None:
            try:
                self._guard.check(candidate.name, made)
            except QuarantinedError:
                stage.name = QUARANTINE
                raise

    def _built(self, candidate: Candidate, made: str, loaded: PluginSet, stage: _Stage) -> Plugin:
        found, manifest = candidate.found, candidate.manifest
        guarded = self._guard.over(candidate.name, made, IMPORT) if self._guard is not None else nullcontext()
        with guarded, configuration.collect() as declared:
            module = _imported(found, made, {plugin.package for plugin in loaded.plugins.values()})
        stage.name = "register"
        handlers = _handlers(module, candidate, made, stage)
        _check_tools(handlers, loaded)
        stage.name, stage.at = "config", _file(module)
        self._configure(found.folder, manifest, declared, stage)
        return Plugin(
            manifest.name, candidate.version, made, manifest, found.folder, module.__name__, module, tuple(handlers)
        )

    def _configure(
        self, folder: Path, manifest: Manifest, declared: dict[str, dict[str, configuration.Field]], stage: _Stage
    ) -> None:
        file = folder / (manifest.config_schema or DEFAULT_SCHEMA_FILE)
        if manifest.config_schema and not file.is_file():
            raise ManifestError(f"the manifest names config_schema {file.name!r}, which isn't in the plugin's folder")
        others = sorted(set(declared) - {manifest.name})
        if others:
            raise ConfigSchemaError(
                f"{manifest.name} declares settings of {others[0]}; a plugin declares its own: "
                f"lumia.config.declare({manifest.name!r}, …)"
            )
        if file.is_file():
            stage.at = (str(file), None)
        if file.is_file() or declared:
            self._config.register(manifest.name, file if file.is_file() else None, declared.get(manifest.name, {}))


def start_plugins(plugins: PluginSet) -> None:
    """Run `on_load` of the plugins not yet started in this process; a prefork child calls it after the fork."""
    plugins.start()


def _closure(names: Iterable[str], found: list[Found]) -> set[str]:
    """Return `names` and everything they depend on, directly or not."""
    needs = {plugin.name: tuple(plugin.manifest.dependencies) for plugin in found if plugin.manifest}
    wanted: set[str] = set()
    left = [hyphenated(name) for name in names]
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += needs.get(name, ())
    return wanted


def _with_dependencies(made: str, manifest: Manifest, loaded: PluginSet) -> str:
    """Return a generation's name with a digest of those it depends on: it has imported them, and got their services."""
    if not manifest.dependencies:
        return made
    names = sorted(manifest.dependencies)
    text = "\n".join(f"{name} {loaded.plugins[name].generation}" for name in names)
    return f"{made}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _check_entry(folder: Path, manifest: Manifest) -> None:
    """Check that the entry file is there and is the one that Python's own rules would import."""
    entry = folder / manifest.main
    if not entry.is_file():
        raise PluginLoadError(f"the manifest's main is {manifest.main!r}, which isn't in the plugin's folder")
    if entry.suffix == ".pyc" and entry.with_suffix(".py").exists():
        raise PluginLoadError(
            "the manifest's main is 'plugin.pyc', but plugin.py is there too and would be imported; "
            "remove it, or make it the main"
        )


def _imported(found: Found, made: str, loaded: Collection[str]) -> ModuleType:
    before = set(sys.modules)
    FINDER.serve(found.package, found.folder)
    setattr(importlib.import_module(found.package), GENERATION, made)
    module = importlib.import_module(f"{found.package}.plugin")
    fresh = {".".join(name.split(".")[:2]) for name in set(sys.modules) - before if name.split(".")[0] in NAMESPACES}
    strangers = sorted(name for name in fresh - {found.package, *loaded} if FINDER.folder(name))
    for stranger in strangers:
        FINDER.forget(stranger)
    if strangers:
        # Its own turn to load would give its classes a second identity.
        raise PluginLoadError(
            f'{found.name} imports {strangers[0]} without depending on it; name it in the manifest\'s "dependencies", '
            "or meet through events and services"
        )
    return module


def _handlers(module: ModuleType, candidate: Candidate, made: str, stage: _Stage) -> list[Handler]:
    name, folder = candidate.name, candidate.found.folder
    handlers: list[Handler] = []
    known: dict[str, Handler] = {}
    marked: set[tuple[str, str, str, bool]] = set()
    for mark, fn in marks_of(module):
        stage.at = file, line = _definition(fn)
        verify(mark, fn, name)
        _check_manifest(mark, fn, candidate.manifest)
        handler = Handler(f"{underscored(name)}.{fn.__name__}", fn, mark, name, made, f"{shown(file, folder)}:{line}")
        _check_twin(handler, known.setdefault(handler.name, handler))
        place = (handler.name, mark.kind, mark.id, mark.glob)
        if place in marked:
            raise RegistrationError(f"{handler.name} has the mark {mark.kind} {mark.id!r} twice; remove one")
        marked.add(place)
        handlers.append(handler)
    stage.at = _file(module)
    _check_commands(candidate.manifest, handlers)
    return handlers


def _definition(fn: Callable[..., Any]) -> tuple[str, int]:
    code = inspect.unwrap(fn).__code__
    return code.co_filename, code.co_firstlineno


def _check_manifest(mark: Mark, fn: Callable[..., Any], manifest: Manifest) -> None:
    if not fn.__name__.isidentifier():
        raise RegistrationError(f"{manifest.name}: {mark.kind} {mark.id!r} marks a lambda; write a named `def`")
    if mark.kind == "command" and mark.id not in manifest.commands:
        raise RegistrationError(
            f"{manifest.name}.{fn.__name__} is the command {mark.id!r}, which the manifest doesn't list; add "
            f'"commands": {{"{mark.id}": "one line of help"}}'
        )
    if mark.kind in ("route", "websocket", RESIDENT) and not manifest.gateway:
        does = "is a resident" if mark.kind == RESIDENT else f"serves {mark.id}"
        raise RegistrationError(
            f"{manifest.name}.{fn.__name__} {does}, but the gateway doesn't load this plugin; add "
            '"gateway": true to its manifest'
        )


def _check_twin(handler: Handler, other: Handler) -> None:
    if other.fn is not handler.fn:
        raise RegistrationError(
            f"two functions are named {handler.name}: at {other.source} and {handler.source}; rename one"
        )


def _check_tools(handlers: list[Handler], loaded: PluginSet) -> None:
    known = {other.mark.id: other for other in loaded.handlers(KIND)}
    for handler in handlers:
        if handler.mark.kind == KIND:
            other = known.setdefault(handler.mark.id, handler)
            if other is not handler:
                raise RegistrationError(
                    f"{handler.name} offers the tool {handler.mark.id!r}, and so does {other.name}; rename one, or "
                    "disable one of the plugins"
                )


def _check_commands(manifest: Manifest, handlers: list[Handler]) -> None:
    marked = {handler.mark.id for handler in handlers if handler.mark.kind == "command"}
    for command in sorted(name for name in set(manifest.commands) - marked if not name.endswith(" *")):
        raise RegistrationError(
            f"{manifest.name}: the manifest lists the command {command!r}, but no function is marked "
            f"@lumia.command({command!r}); mark one, or remove it from the manifest"
        )


def _file(module: ModuleType) -> tuple[str, None]:
    return str(module.__file__), None
