"""What is installed and how it fares, without running any plugin's code (spec §13.2)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia import __version__, paths
from lumia.config import ConfigStore
from lumia.discovery import FIRST_PARTY, discover
from lumia.pkg import lockfile, requests
from lumia.pkg.lockfile import Lock
from lumia.quarantine import suspects
from lumia.resolve import select

Status = Literal["loaded", "disabled", "failed", "installed"]
Running = Callable[[], Collection[str] | None]
"""Tells which plugins the running bot has loaded, None when none is running."""


@dataclass(frozen=True)
class Row:
    """One plugin.

    commit: "" when `pkg` did not install it. status: `loaded` by the running bot; `failed`: it can't be loaded, and
    `reason` says why; `installed`: nothing hinders it, and no running bot has it. source: where it came from, without
    secrets; the place of its folder for what `pkg` did not install.
    """

    name: str
    version: str
    commit: str
    status: Status
    source: str
    reason: str = ""
    managed: bool = True


def rows(root: Path, running: Running, *, everything: bool = False) -> list[Row]:
    """Return what `pkg` installed, by name; everything: also what else lies in plugins/, and what comes with Lumia."""
    lock = lockfile.read(root)
    found = discover(paths.base(), root, tuple(ConfigStore(root).core.plugins.disabled))
    selection = select(found, __version__)
    versions = {one.name: one.version for one in selection.accepted}
    refused = {plugin.name: str(error) for plugin, error in selection.rejected}
    refused |= {one.plugin: one.reason for one in suspects(paths.base(), root) if one.quarantined}
    known = {plugin.name: plugin for plugin in found if plugin.place not in FIRST_PARTY}
    live = (running() or ()) if lock.plugins or everything else ()
    names = sorted({*lock.plugins, *(plugin.name for plugin in found)} if everything else lock.plugins)
    own = {plugin.name: plugin for plugin in found if plugin.place in FIRST_PARTY}
    listed = []
    for name in names:
        plugin = known.get(name) or own.get(name)
        if plugin is None:
            status: Status = "failed"
            reason = f"it has no folder in plugins/ any more; `pkg -S {name}` brings it back"
        else:
            reason = refused.get(name, "")
            status = _status(name, plugin.disabled, bool(reason), live)
        listed.append(_row(name, lock, status, reason, versions, plugin.where if plugin else ""))
    return listed


def _status(name: str, disabled: bool, refused: bool, live: Collection[str]) -> Status:
    if disabled:
        return "disabled"
    if refused:
        return "failed"
    return "loaded" if name in live else "installed"


def _row(name: str, lock: Lock, status: Status, reason: str, versions: dict[str, str], where: str) -> Row:
    locked = lock.plugins.get(name)
    if locked is not None:
        return Row(name, locked.version, locked.commit, status, requests.public_url(locked.url), reason)
    return Row(name, versions.get(name, ""), "", status, where, reason, managed=False)


def files(folder: Path) -> list[Path]:
    """Return the files of a plugin's folder, without git's and Python's own, sorted."""
    found = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    hidden = {".git", "__pycache__"}
    return sorted(path for path in found if not hidden & set(path.relative_to(folder).parts))
