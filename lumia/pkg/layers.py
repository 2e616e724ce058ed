"""Layers: folders of Python packages that plugins need beside the bot's own (`data/python/<tag>-<hash>/`).

A layer is named by what is in it and never changed. `current.json` beside the layers names the one that processes use
when they start; one that runs changes over with `lumia.pkg.import_path`. The bot's own packages stand before it and
always win. Whoever changes `current.json` holds the lock of `pkg` (`lumia.pkg.mutex`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumia import atomic

FOLDER = Path("data", "python")
CURRENT = "current.json"
ABOUT = ".layer.json"
"""In each complete layer: what is in it. Processes that use the layer hold a shared lock on this file."""


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


def name_of_current(root: Path) -> str:
    """Return the name of the layer that processes of this bot root start with; "" without one."""
    now = current(root)
    return now.name if now is not None else ""


def pointer(root: Path) -> str | None:
    """Return the text of `current.json`, None when there is none: what `point` brings back. Raises `OSError`."""
    try:
        return (root / FOLDER / CURRENT).read_text("utf-8", "replace")
    except FileNotFoundError:
        return None


def pointing(layer: Layer | None) -> str | None:
    """Return the text that makes `layer` the one processes start with; None for none."""
    if layer is None:
        return None
    requirements = {name: list(of) for name, of in layer.requirements.items()}
    return json.dumps({"layer": layer.name, "requirements": requirements}, indent=1, sort_keys=True)


def point(root: Path, text: str | None) -> None:
    """Write a text of `pointer` or `pointing`, and bring it to the disk. Raises `OSError`."""
    file = root / FOLDER / CURRENT
    if text is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.replace(file, text.encode())
    elif file.exists():
        file.unlink()
        atomic.sync_folder(file.parent)


def named_in(text: str | None) -> str:
    """Return the layer that a text of `pointer` names; "" for none."""
    with suppress(ValueError, TypeError, AttributeError):
        return str(json.loads(text or "{}").get("layer", ""))
    return ""


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
    point(root, pointing(layer))
    return before


def sweep(root: Path, keep: Collection[str] = ()) -> list[str]:
    """Remove layers that are neither current nor in `keep` nor used by a living process; return their names."""
    parent = root.absolute() / FOLDER
    now = current(root)
    kept = {*keep, *([now.name] if now else [])}
    removed = []
    with locked(root):
        for half in (*parent.glob(".building-*"), *parent.glob(".gone-*")):  # of somebody who was killed
            shutil.rmtree(half, ignore_errors=True)
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
