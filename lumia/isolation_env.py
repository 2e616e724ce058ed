"""The environment of an isolated plugin: a virtual environment of its own in front of the bot's packages.

It is made of what the manifest asks for, and found again by that: `data/python/isolated/<name>-<hash>/`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import site
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lumia import __version__
from lumia.errors import PluginLoadError
from lumia.manifest import Manifest

FOLDER = Path("data", "python", "isolated")
READY = ".ready.json"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """A virtual environment in `folder`."""

    folder: Path

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Return the folder of its own packages."""
        return self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    @property
    def ready(self) -> bool:
        """Tell whether it is complete."""
        return (self.folder / READY).is_file()


def _log(line: str) -> None:
    logging.getLogger("lumia").info("%s", line)


def environment_of(root: Path, manifest: Manifest) -> Environment:
    """Return the environment a plugin has, or is to have."""
    asked = [__version__, sys.version, sys.prefix, *_sites(), *sorted(manifest.python_dependencies)]
    digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:12]
    return Environment(root.absolute() / FOLDER / f"{manifest.name}-{digest}")


def environment(root: Path, manifest: Manifest, say: Say = _log) -> Environment:
    """Return the environment of an isolated plugin, made now if it isn't there: complete, or not at all.

    Raises `PlanError` or `SourceError` when its packages can't be had, `PluginLoadError` when it can't be written.
    """
    found = environment_of(root, manifest)
    if not found.ready:
        from lumia.pkg import layers

        with layers.locked(root):
            if not found.ready:
                _make(found, root, manifest, say)
    return found


def _make(made: Environment, root: Path, manifest: Manifest, say: Say) -> None:
    from lumia.pkg import pip, python_deps

    say(f"making the environment of {manifest.name}")
    packages = python_deps.resolve_isolated(manifest.name, manifest.python_dependencies, root=root, say=say)
    try:
        if made.folder.exists():
            shutil.rmtree(made.folder)
        venv.EnvBuilder(with_pip=False, symlinks=True).create(made.folder)
        if packages:
            pip.install(packages, made.packages, say=say)
        lines = [f"import site; site.addsitedir({entry!r})" for entry in _sites()]
        # Sorted last, so that what the packages of the plugin put on the path stands before the bot's.
        (made.packages / "zzz-lumia-bot.pth").write_text("\n".join(lines) + "\n", "utf-8")
        new = made.folder / f"{READY}.new"
        new.write_text(json.dumps({one.name: one.version for one in packages}), "utf-8")
        new.replace(made.folder / READY)
    except OSError as error:
        raise PluginLoadError(f"the environment {made.folder} can't be made: {error.strerror or error}") from error
    finally:
        if not made.ready:
            shutil.rmtree(made.folder, ignore_errors=True)


def _sites() -> list[str]:
    """Return the folders of the bot's own packages."""
    known = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [entry for entry in dict.fromkeys(known) if entry in sys.path and os.path.isdir(entry)]


def sweep(root: Path, manifests: list[Manifest]) -> list[str]:
    """Remove the environments that none of these isolated plugins has; return their names."""
    from lumia.pkg import layers

    wanted = {environment_of(root, manifest).folder.name for manifest in manifests if manifest.isolation is not None}
    parent = root / FOLDER
    gone = [folder for folder in sorted(parent.glob("*")) if folder.is_dir() and folder.name not in wanted]
    with layers.locked(root):
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)
    return [folder.name for folder in gone]
