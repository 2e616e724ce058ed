"""Python packages for operations under test: built by the real code from wheels in a folder, without pip's seconds."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from packaging.requirements import Requirement

from lumia.pkg import layers, operation, pip, python_deps
from lumia.pkg.layers import Layer, Package
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Plan


@contextmanager
def in_place_of_pip(shelf: Path) -> Iterator[None]:
    """Find and install the wheels in `shelf`, which need nothing else."""

    def report(roots: Mapping[str, Sequence[str]], **_: Any) -> tuple[Package, ...]:
        return found(roots, shelf)

    def install(packages: Collection[Package], folder: Path, **_: Any) -> None:
        for one in packages:
            with zipfile.ZipFile(shelf / f"{one.name.replace('-', '_')}-{one.version}-py3-none-any.whl") as wheel:
                wheel.extractall(folder)

    with patch.object(pip, "report", report), patch.object(pip, "install", install):
        yield


def found(requirements: Mapping[str, Sequence[str]], shelf: Path) -> tuple[Package, ...]:
    """Return the newest package that fits each requirement."""
    packages = set()
    for asked in {Requirement(text) for texts in requirements.values() for text in texts}:
        there = [path.name.split("-")[1] for path in shelf.glob(f"{asked.name.replace('-', '_')}-*.whl")]
        packages.add(Package(asked.name, max(asked.specifier.filter(there))))
    return tuple(packages)


def packages_of(plan: Plan, root: Path, shelf: Path) -> operation.Packages:
    """Return what gives an operation the packages that `plan.python` asks for."""

    def packages(lock: Lock) -> Layer | None:
        wanted = found(plan.python, shelf)
        with in_place_of_pip(shelf):
            return python_deps.build(layers.layer_of(root, wanted, plan.python, "test")) if wanted else None

    return packages
