"""Layers on the import path of a process that runs: changed over to, and gone back from (docs/hot-reload.md)."""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

from packaging.utils import canonicalize_name

from lumia.pkg.layers import ABOUT, FOLDER, Layer

_held: dict[Path, int] = {}


def activate(root: Path, layer: Layer | None) -> tuple[str, ...]:
    """Put `layer` at the end of this process's import path, before any older one.

    The older one stays: generations of plugins that still run may import from it. Returns a sentence for each library
    that is imported here in another version: such a process has to be replaced.
    """
    if layer is None:
        return ()
    wrong = clashes(layer)
    _hold(layer.folder)
    older = [entry for entry in on_path(root) if entry != str(layer.folder)]
    _put(root, [str(layer.folder), *older])
    return wrong


def on_path(root: Path) -> tuple[str, ...]:
    """Return the layers of a bot root that are on this process's import path, in their order."""
    parent = root.absolute() / FOLDER
    return tuple(entry for entry in sys.path if Path(entry).parent == parent)


def _put(root: Path, entries: Collection[str]) -> None:
    now = on_path(root)
    sys.path[:] = [*(entry for entry in sys.path if entry not in now), *entries]
    importlib.invalidate_caches()


def back_to(root: Path, entries: Collection[str]) -> None:
    """Take this process's import path back to what `on_path` said before an `activate` that came to nothing.

    Modules that were imported from a layer that is on it no more are forgotten, so that the next one may bring another
    version. All of them stay when some are compiled: most of those can't be loaded twice, and they use the others.
    """
    gone = [Path(entry) for entry in on_path(root) if entry not in entries]
    if tuple(entries) != on_path(root):
        _put(root, entries)
    for folder in gone:
        sys.path_importer_cache.pop(str(folder), None)
        imported = dict(_imported_from(folder))
        if not any(str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES)) for module in imported.values()):
            _forget(imported)
            if folder in _held:
                os.close(_held.pop(folder))


def _forget(modules: Mapping[str, ModuleType]) -> None:
    for name, module in modules.items():
        sys.modules.pop(name, None)
        above, _, last = name.rpartition(".")
        if getattr(sys.modules.get(above), last, None) is module:  # of a namespace that other packages share
            delattr(sys.modules[above], last)


def _hold(folder: Path) -> None:
    """Keep the folder from being swept while this process lives."""
    if folder not in _held:
        held = os.open(folder / ABOUT, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(held, fcntl.LOCK_SH)
        _held[folder] = held


def clashes(layer: Layer | None) -> tuple[str, ...]:
    """Return what `activate` would, and change nothing: what this process has imported in another version."""
    if layer is None:
        return ()
    return tuple(_clashing(layer))


def _clashing(layer: Layer) -> Iterator[str]:
    from lumia.pkg import python_deps

    wanted = {one.name: one.version for one in layer.packages}
    tops = _imported_from_layers(layer.folder.parent)
    for folder, modules in sorted(tops.items()):
        if folder == layer.folder:
            continue
        for name, version, provided in _provided(folder):
            if name in wanted and wanted[name] != version and modules & provided:
                plugins = python_deps.brought_by(layer, name)
                whose = f"for plugin {' and '.join(plugins)}" if plugins else "with the new packages"
                yield f"{name} {version} is imported here, and {name} {wanted[name]} comes {whose}"


def _imported_from_layers(parent: Path) -> dict[Path, set[str]]:
    """Return the top-level modules this process has imported, by the layer they are from."""
    found: dict[Path, set[str]] = {}
    for name, module in _imported_from(parent):
        layer = parent / Path(str(module.__file__)).relative_to(parent).parts[0]
        found.setdefault(layer, set()).add(name.partition(".")[0])
    return found


def _imported_from(folder: Path) -> Iterator[tuple[str, ModuleType]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(f"{folder}{os.sep}"):
            yield name, module


def _provided(folder: Path) -> Iterator[tuple[str, str, set[str]]]:
    for one in distributions(path=[str(folder)]):
        files = {file.parts[0].partition(".")[0] for file in one.files or () if file.parts[0] != ".."}
        yield canonicalize_name(one.metadata["Name"]), one.version, files
