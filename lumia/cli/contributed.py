"""Commands of plugins and of the backend, listed from data and loaded only when one of them is invoked.

A plugin lists its commands in manifest.json (`"commands": {"send": "one line of help"}`), the backend in
`<backend>/commands.json`; the functions are marked with `@lumia.command(name)`. So `lumia --help` runs no plugin code
and a broken plugin breaks only its own commands.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from lumia import paths
from lumia.cli.opened import command_of
from lumia.errors import LumiaError, PluginLoadError, RootNotFoundError
from lumia.marks import Function, marks_of

DEFAULT_BACKEND = "tasks"


@dataclass(frozen=True)
class Contributed:
    """One command of a plugin or the backend.

    name: with a space for a subcommand. source: who offers it. loaded: loads what it needs and holds its function.
    """

    name: str
    help: str
    source: str
    loaded: Callable[[], AbstractContextManager[Function]]


def commands() -> tuple[list[Contributed], list[str]]:
    """Return the contributed commands of this bot root, by name, and what is wrong with those that can't be listed."""
    base, root = paths.base(), _root()
    problems: list[str] = []
    settings = _settings(root, problems)
    found: dict[str, Contributed] = {}
    for command in (*_of_backend(base, settings, problems), *_of_plugins(base, root, settings, problems)):
        first = found.setdefault(command.name, command)
        if first is not command:
            problems.append(f"{command.source} and {first.source} both offer `lumia {command.name}`; the latter has it")
    return [found[name] for name in sorted(found)], problems


def _root() -> Path | None:
    try:
        return paths.find_root()
    except RootNotFoundError:
        return None


def _settings(root: Path | None, problems: list[str]) -> dict[str, Any]:
    """Return the raw content of lumia.toml; one that can't be read is a problem to report, not to die of."""
    if root is None:
        return {}
    file = root / paths.CONFIG_FILE
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"{file}: {error}")
        return {}


def _section(settings: dict[str, Any], name: str) -> dict[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _of_backend(base: Path, settings: dict[str, Any], problems: list[str]) -> Iterator[Contributed]:
    name = str(_section(settings, "lumia").get("backend", DEFAULT_BACKEND))
    file = base / name / "commands.json"
    try:
        listed = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"backend {name!r} offers no commands, {file} can't be read: {error}")
        return
    for command, text in listed.items():
        yield Contributed(command, text, f"backend {name!r}", partial(_backend_command, base, name, command))


def _of_plugins(base: Path, root: Path | None, settings: dict[str, Any], problems: list[str]) -> Iterator[Contributed]:
    disabled = _section(settings, "plugins").get("disabled")
    off = {str(name).replace("_", "-") for name in disabled} if isinstance(disabled, list) else set()
    for file in _manifests(base, root):
        plugin = file.parent.name.replace("_", "-")
        if plugin in off:
            continue
        try:
            listed = _listed(file)
        except (OSError, ValueError, RecursionError) as error:
            problems.append(f"plugin {plugin!r} offers no commands, {file} can't be read: {error}")
            continue
        apart = isolated(file) and os.environ.get(paths.ISOLATED) != plugin
        loaded = partial(elsewhere, file.parent) if apart else None
        for command, text in listed.items():
            yield Contributed(command, text, f"plugin {plugin!r}", loaded or partial(command_of, plugin, command))


def _manifests(base: Path, root: Path | None) -> Iterator[Path]:
    """Yield the manifests there are. They are read raw here: checking each one would double the time of every command.

    The loader checks the one whose command is invoked.
    """
    parents = [base / "handlers", base / "adapters", *([root / "plugins"] if root else [])]
    for parent in parents:
        yield from sorted(file for file in parent.glob("*/manifest.json") if file.parent.name[0] not in "._")


@lru_cache(maxsize=1024)
def _raw(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def isolated(file: Path) -> bool:
    """Tell whether the manifest asks for processes of the plugin's own."""
    manifest = _raw(file)
    return isinstance(manifest, dict) and bool(manifest.get("isolation"))


def elsewhere(folder: Path) -> AbstractContextManager[Function]:
    """Become this same command in the environment of the isolated plugin in `folder`, where it can be loaded."""
    from lumia.isolation_describing import own_environ
    from lumia.isolation_env import environment
    from lumia.manifest import load_manifest

    root, manifest = paths.find_root(), load_manifest(folder)
    python = str(environment(root, manifest).python)
    sys.stdout.flush()
    os.execve(python, [python, "-P", "-m", "lumia", *sys.argv[1:]], own_environ(root, manifest.name))


def _listed(file: Path) -> dict[str, str]:
    manifest = _raw(file)
    listed = manifest.get("commands", {}) if isinstance(manifest, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(text, str) and name.strip() for name, text in listed.items()):
        raise ValueError('"commands" is an object of name and one line of help')
    return listed


@contextmanager
def _backend_command(base: Path, backend: str, command: str) -> Iterator[Function]:
    if str(base) not in sys.path:
        sys.path.insert(0, str(base))
    yield marked(_imported(f"{backend}.commands", f"backend {backend!r}"), command)


def _imported(module: str, source: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except LumiaError:
        raise
    except Exception as error:
        raise PluginLoadError(f"{source}: importing {module} failed: {type(error).__name__}: {error}") from error


def marked(module: ModuleType, command: str) -> Function:
    """Return the function of `module` that `@lumia.command(command)` marks; raises `PluginLoadError` without one."""
    for mark, fn in marks_of(module):
        if mark.kind == "command" and mark.id == command:
            return fn
    raise PluginLoadError(
        f"{module.__name__}: `lumia {command}` is listed, but no function is marked with @lumia.command({command!r})"
    )
