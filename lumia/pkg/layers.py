"""Layers: folders of Python packages that plugins need beside the bot's own (`data/python/<tag>-<hash>/`).

A layer is named by what is in it and never changed. `current.json` beside the layers names the one that processes use
when they start; one that runs changes over with `activate`. The bot's own packages stand before it and always win.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """One package of a layer. url: where it is from; sha256: of that file, "" for one that can't be checked."""

    name: str
    version: str
    url: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class Layer:
    """What is, or is to be, in one folder of packages. requirements: plugin → what it asked for, the reason it exists."""

    folder: Path
    packages: tuple[Package, ...]
    requirements: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """Return the name of its folder, `<tag>-<hash>`."""
        return self.folder.name

    @property
    def built(self) -> bool:
        """Tell whether the folder is complete."""
        raise NotImplementedError


def current(root: Path) -> Layer | None:
    """Return the layer that processes of this bot root start with; None without one."""
    raise NotImplementedError


def read(root: Path, name: str) -> Layer | None:
    """Return a built layer by its name; None when there is none."""
    raise NotImplementedError


def switch(root: Path, layer: Layer | None) -> Layer | None:
    """Make `layer` (built) the one that processes start with; returns the one before. Undo: `switch(root, before)`."""
    raise NotImplementedError


def activate(root: Path, layer: Layer | None) -> tuple[str, ...]:
    """Put `layer` at the end of this process's import path, in the place of an older one.

    Returns a sentence for each library that is imported here in another version: such a process has to be replaced.
    """
    raise NotImplementedError


def clashes(layer: Layer | None) -> tuple[str, ...]:
    """Return what `activate` would, and change nothing: what this process has imported in another version."""
    raise NotImplementedError


def sweep(root: Path, keep: Collection[str] = ()) -> list[str]:
    """Remove layers that are neither current nor in `keep` nor used by a living process; return their names."""
    raise NotImplementedError
