"""Layers: folders of Python packages that plugins need beside the bot's own (`data/python/<tag>-<hash>/`).

A layer is named by what is in it and never changed. `current.json` beside the layers names the one that processes use
when they start; one that runs changes over with `activate`. The bot's own packages stand before it and always win.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

FOLDER = Path("data", "python")
CURRENT = "current.json"
ABOUT = ".layer.json"
"""In each complete layer: what is in it. Processes that use the layer hold a shared lock on this file."""
_held: dict[Path, int] = {}


@dataclass(frozen=True)
class Package:
    """One package of a layer. sha256: of the file it comes from, "" for one that can't be checked."""

    name: str
    version: str
    sha256: str = ""


@dataclass(frozen=True)
class Layer:
    """What is, or is to be, in one folder of packages. requirements: plugin → what it asked for."""

    folder: Path
    packages: tuple[Package, ...]
    requirements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of its folder, `<tag>-<hash>`."""
        return self.folder.name

    @property
    def built(self) -> bool:
        """Tell whether the folder is complete."""
        return (self.folder / ABOUT).is_file()


def layer_of(root: Path, packages: Collection[Package], requirements: Mapping[str, tuple[str, ...]], tag: str) -> Layer:
    """Return the layer of these packages; tag: the interpreter it is for, e.g. `cpython-312`."""
    ordered = tuple(sorted(packages, key=lambda package: package.name))
    text = "\n".join(f"{one.name}=={one.version} {one.sha256}" for one in ordered)
    digest = hashlib.sha256(f"{tag} {sys.platform} {os.uname().machine}\n{text}".encode()).hexdigest()[:16]
    return Layer(root.absolute() / FOLDER / f"{tag}-{digest}", ordered, requirements)


def current(root: Path) -> Layer | None:
    """Return the layer that processes of this bot root start with; None without one."""
    found = _json(root / FOLDER / CURRENT)
    return _layer(root, str(found.get("layer", "")), found.get("requirements", {}))


def read(root: Path, name: str) -> Layer | None:
    """Return a built layer by its name; None when there is none."""
    return _layer(root, name, {})


def _layer(root: Path, name: str, requirements: Mapping[str, Any]) -> Layer | None:
    if not name or "/" in name or name.startswith("."):
        return None
    folder = root.absolute() / FOLDER / name
    about = _json(folder / ABOUT)
    if not about:
        return None
    packages = tuple(Package(*row) for row in about["packages"])
    return Layer(folder, packages, {plugin: tuple(texts) for plugin, texts in requirements.items()})


def _json(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text("utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def write_about(layer: Layer, folder: Path) -> None:
    """Write into `folder` that it holds all of `layer`."""
    packages = [[one.name, one.version, one.sha256] for one in layer.packages]
    _write(folder / ABOUT, {"packages": packages})


def _write(file: Path, content: Any) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as out:
        json.dump(content, out, indent=1, sort_keys=True)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)


def switch(root: Path, layer: Layer | None) -> Layer | None:
    """Make `layer` (built) the one that processes start with; returns the one before. Undo: `switch(root, before)`."""
    before = current(root)
    file = root / FOLDER / CURRENT
    if layer is None:
        file.unlink(missing_ok=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, {"layer": layer.name, "requirements": {name: list(of) for name, of in layer.requirements.items()}})
    return before


def activate(root: Path, layer: Layer | None) -> tuple[str, ...]:
    """Put `layer` at the end of this process's import path, before any older one.

    The older one stays: generations of plugins that still run may import from it. Returns a sentence for each library
    that is imported here in another version: such a process has to be replaced.
    """
    if layer is None:
        return ()
    wrong = clashes(layer)
    _hold(layer.folder)
    parent = root.absolute() / FOLDER
    older = [entry for entry in sys.path if Path(entry).parent == parent and entry != str(layer.folder)]
    sys.path[:] = [entry for entry in sys.path if entry not in older and entry != str(layer.folder)]
    sys.path += [str(layer.folder), *older]
    importlib.invalidate_caches()
    return wrong


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
    wanted = {one.name: one.version for one in layer.packages}
    tops = _imported_from_layers(layer.folder.parent)
    for folder, modules in sorted(tops.items()):
        if folder == layer.folder:
            continue
        for name, version, provided in _provided(folder):
            if name in wanted and wanted[name] != version and modules & provided:
                yield f"{name} {version} is imported, the new packages hold {name} {wanted[name]}"


def _imported_from_layers(parent: Path) -> dict[Path, set[str]]:
    """Return the top-level modules this process has imported, by the layer they are from."""
    found: dict[Path, set[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(f"{parent}{os.sep}"):
            found.setdefault(parent / Path(file).relative_to(parent).parts[0], set()).add(name.partition(".")[0])
    return found


def _provided(folder: Path) -> Iterator[tuple[str, str, set[str]]]:
    for one in distributions(path=[str(folder)]):
        files = {file.parts[0].partition(".")[0] for file in one.files or () if file.parts[0] != ".."}
        yield canonicalize_name(one.metadata["Name"]), one.version, files


def sweep(root: Path, keep: Collection[str] = ()) -> list[str]:
    """Remove layers that are neither current nor in `keep` nor used by a living process; return their names."""
    parent = root.absolute() / FOLDER
    now = current(root)
    kept = {*keep, *([now.name] if now else [])}
    removed = []
    with locked(root):
        for about in sorted(parent.glob(f"*/{ABOUT}")):
            folder = about.parent
            if folder.name not in kept and _unused(about):
                gone = parent / f".gone-{folder.name}"
                shutil.rmtree(gone, ignore_errors=True)
                folder.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
                removed.append(folder.name)
    return removed


def _unused(about: Path) -> bool:
    with about.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Be the only one who builds or removes packages of this bot root."""
    parent = root / FOLDER
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
