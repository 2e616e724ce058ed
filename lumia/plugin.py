"""A loaded plugin, a failed one, and the set a process works with (DESIGN §3)."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from lumia.box import Box
from lumia.errors import DependencyError, LumiaError, ManifestError, PluginLoadError
from lumia.finder import FINDER
from lumia.loading import ON_LOAD
from lumia.manifest import MANIFEST_FILE, Manifest
from lumia.marks import Mark
from lumia.quarantine import STAGE as QUARANTINE
from lumia.quarantine import Guard, QuarantinedError
from lumia.resolve import unmet
from lumia.services import Services

_MESSAGE_CHARS = 2000
_starting = threading.RLock()


@dataclass(frozen=True)
class Handler:
    """One mark on one function of a loaded plugin; a function with two marks is two handlers of the same name.

    name: `<plugin_underscored>.<function>`. plugin: the plugin's name. source: file and line relative to base or root.
    """

    name: str
    fn: Callable[..., Any]
    mark: Mark
    plugin: str
    generation: str
    source: str


@dataclass(frozen=True, eq=False)
class Plugin:
    """One generation of a loaded plugin.

    module_name: canonical name of its entry module, e.g. `handlers.x.plugin`. elsewhere: why its code is in other
    processes (`lumia.isolation`), "" where it is in this one.
    """

    name: str
    version: str
    generation: str
    manifest: Manifest
    folder: Path
    module_name: str
    module: ModuleType
    handlers: tuple[Handler, ...] = ()
    elsewhere: str = ""

    @property
    def package(self) -> str:
        """Return the canonical name of the plugin's package."""
        return self.module_name.rpartition(".")[0]


@dataclass(frozen=True)
class PluginFailure:
    """Why a plugin, or one of its functions, is not at work.

    stage: discover, resolve, quarantine, import, register, config, on_load or on_unload. file: relative to base or bot
    root. line: None when no line is to blame. traceback: Python's, empty when no plugin code was involved.
    """

    name: str
    stage: str
    file: str
    line: int | None
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"plugin {self.name} ({self.stage}, {where}): {self.message}"

    def as_error(self) -> PluginLoadError:
        """Return the failure as an error to raise, with Python's own traceback in its text."""
        return PluginLoadError(f"{self}\n{self.traceback}".rstrip())


@dataclass
class PluginSet:
    """The plugins of one bot in one process, in load order, and what failed.

    started: plugin → the process its `on_load` ran in. warnings: what an operator should know and nothing stops for.
    replaced: package → the modules of the generation before, as long as they may be put back. older: (plugin,
    generation) → one that still runs beside the set, with its modules: loading it again takes it over. guard: watches
    over what its plugins do to the process, where something does.
    """

    services: Services
    plugins: dict[str, Plugin] = field(default_factory=dict)
    failures: list[PluginFailure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    replaced: dict[str, dict[str, ModuleType]] = field(default_factory=dict)
    older: dict[tuple[str, str], tuple[Plugin, dict[str, ModuleType]]] = field(default_factory=dict)
    guard: Guard | None = None

    def handlers(self, *kinds: str) -> list[Handler]:
        """Return the handlers of these mark kinds (all kinds when none is named) in load, then registration order."""
        every = (handler for plugin in self.plugins.values() for handler in plugin.handlers)
        return [handler for handler in every if not kinds or handler.mark.kind in kinds]

    def start(self) -> None:
        """Run `on_load` of every plugin that hasn't been started in this process, in load order.

        A plugin whose `on_load` raises leaves the set with a `PluginFailure`, and so do those that depend on it.
        """
        with _starting:
            for plugin in list(self.plugins.values()):
                if self.started.get(plugin.name) != os.getpid():
                    self._start(plugin)

    def unload(self, plugin: Plugin) -> PluginFailure | None:
        """Run the plugin's `on_unload`, withdraw its services and take its modules out of `sys.modules`.

        An `on_unload` that raises is reported and returned; the plugin is gone all the same. A newer generation that is
        in `sys.modules` by now stays there.
        """
        failure = None
        with _starting:
            if self.plugins.get(plugin.name) is plugin:
                del self.plugins[plugin.name]
            if self.started.pop(plugin.name, None) == os.getpid():
                failure = self._hook(plugin, "on_unload")
                self.failures += [failure] if failure else []
            self._drop(plugin)
        return failure

    def put_back(self, plugin: Plugin, *, unload: bool = True) -> PluginFailure | None:
        """Unload the plugin, and give the modules it has replaced their names again.

        unload: False leaves it running, as a generation that was there before.
        """
        failure = self.unload(plugin) if unload else None
        if plugin.package in self.replaced:
            FINDER.forget(plugin.package)
            FINDER.restore(self.replaced.pop(plugin.package))
        return failure

    def restore(self) -> None:
        """Give the modules their names again that plugins have replaced which aren't in the set any more."""
        for package, modules in self.replaced.items():
            FINDER.forget(package)
            FINDER.restore(modules)
        self.replaced.clear()

    def close(self) -> None:
        """Unload every plugin, dependents first."""
        for plugin in reversed(list(self.plugins.values())):
            self.unload(plugin)

    def _start(self, plugin: Plugin) -> None:
        lost = next((name for name in sorted(plugin.manifest.dependencies) if name not in self.plugins), None)
        # What a parent process provided before the fork is provided anew by its child.
        self.services.withdraw(plugin.name, plugin.generation)
        failure = self._on_load(plugin) if lost is None else self._lost(plugin, lost)
        if failure is None:
            self.started[plugin.name] = os.getpid()
            return
        self.failures.append(failure)
        del self.plugins[plugin.name]
        self._drop(plugin)
        announce(self.services, plugin.manifest, f"it failed to load: {failure.message}")

    def _on_load(self, plugin: Plugin) -> PluginFailure | None:
        if self.guard is None or not hasattr(plugin.module, "on_load"):
            return self._hook(plugin, "on_load")
        try:
            self.guard.check(plugin.name, plugin.generation)
        except PluginLoadError as error:
            stage = QUARANTINE if isinstance(error, QuarantinedError) else ON_LOAD
            return failure_of(plugin.name, stage, plugin.folder, error, _file_of(plugin.module))
        with self.guard.over(plugin.name, plugin.generation, ON_LOAD):
            return self._hook(plugin, "on_load")

    def _lost(self, plugin: Plugin, dependency: str) -> PluginFailure:
        error = DependencyError(unmet(plugin.name, dependency, reason_of(dependency, self.failures)))
        return failure_of(plugin.name, "resolve", plugin.folder, error, (str(plugin.folder / MANIFEST_FILE), None))

    def _hook(self, plugin: Plugin, hook: str) -> PluginFailure | None:
        try:
            with self.services.providing(plugin.name, plugin.generation):
                _hook_of(plugin.module, hook)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure_of(plugin.name, hook, plugin.folder, error, _file_of(plugin.module))
        return None

    def _drop(self, plugin: Plugin) -> None:
        self.services.withdraw(plugin.name, plugin.generation)
        modules = {plugin.module}
        if sys.modules.get(plugin.module_name) is plugin.module:
            modules |= set(FINDER.forget(plugin.package).values())
        for module in modules:
            let_go(module)


def let_go(module: ModuleType) -> None:
    """Take the live resources out of a module that is used no more, so that each is released with its last share."""
    for name, value in list(vars(module).items()):
        if isinstance(value, Box) and value.is_arc:
            delattr(module, name)


def _hook_of(module: ModuleType, name: str) -> Callable[[], object]:
    hook = getattr(module, name, None)
    if hook is None:
        return lambda: None
    if not callable(hook) or inspect.iscoroutinefunction(hook) or inspect.isgeneratorfunction(hook):
        raise PluginLoadError(f"{name} is called without a running event loop; write it as `def {name}():`")
    return hook  # type: ignore[no-any-return]


def _file_of(module: ModuleType) -> tuple[str, None]:
    return str(module.__file__), None


def announce(services: Services, manifest: Manifest, absence: str = "") -> None:
    """Tell `services` what a plugin offers, and why it isn't running if it isn't."""
    services.announce(manifest.name, manifest.provides, manifest.unique, absence)


def reason_of(name: str, failures: list[PluginFailure]) -> str | None:
    """Return the first failure's message of a plugin, None when it has none."""
    return next((str(failure.message) for failure in failures if failure.name == name), None)


def failure_of(
    name: str, stage: str, folder: Path, error: BaseException, at: tuple[str, int | None] | None = None
) -> PluginFailure:
    """Describe `error` as the failure of a plugin.

    Blamed is the file an error names itself, else the plugin's innermost frame, else `at` (file and line).
    """
    own = _own_place(error, folder)
    file, line = own or at or (str(folder), None)
    message = _text(error)
    if isinstance(error, LumiaError) and own is None:
        return PluginFailure(name, stage, shown(file, folder), line, message)
    if not isinstance(error, LumiaError):
        message = f"{type(error).__name__}: {message}".removesuffix(": ")
    trace = "".join(traceback.format_exception(error))
    return PluginFailure(name, stage, shown(file, folder), line, message, trace)


def _own_place(error: BaseException, folder: Path) -> tuple[str, int | None] | None:
    if isinstance(error, ManifestError):
        return (error.file, error.line) if error.file else None
    if isinstance(error, SyntaxError) and error.filename and _inside(error.filename, folder):
        return error.filename, error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next(((at.filename, at.lineno) for at in reversed(frames) if _inside(at.filename, folder)), None)


def _inside(file: str, folder: Path) -> bool:
    return Path(file).is_relative_to(folder)


def shown(file: str, folder: Path) -> str:
    """Return a plugin's file relative to base or bot root (`plugins/echo/plugin.py`), other files as they are."""
    return Path(file).relative_to(folder.parent.parent).as_posix() if _inside(file, folder) else file


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MESSAGE_CHARS]
    except Exception:
        return "(its message can't be shown)"
