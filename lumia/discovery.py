"""Which plugins there are: folders, manifests and versions, without running any of their code (spec §7.1–7.3)."""

from __future__ import annotations

import difflib
import hashlib
import os
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from lumia.errors import ManifestError, PluginError
from lumia.finder import PLACES
from lumia.manifest import MANIFEST_FILE, Manifest, hyphenated, load_manifest, underscored

FIRST_PARTY = frozenset({"handlers", "adapters"})
_DIGESTED = frozenset({".py", ".pyc", ".json", ".toml"})
_NOT_SOURCE = frozenset({"__pycache__", "node_modules"})
_GIT_SECONDS = 10


@dataclass(frozen=True)
class Found:
    """A plugin's folder. place: handlers, adapters or plugins. manifest: None when unusable, then `error` says why."""

    name: str
    place: str
    folder: Path
    manifest: Manifest | None = None
    disabled: bool = False
    error: PluginError | None = None

    @property
    def package(self) -> str:
        """Return the canonical name of the plugin's package, e.g. `handlers.heartflow`."""
        return f"{PLACES[self.place]}.{underscored(self.name)}"

    @property
    def where(self) -> str:
        """Return the folder relative to base or bot root, e.g. `plugins/echo`."""
        return f"{self.place}/{self.folder.name}"


@dataclass(frozen=True)
class FolderVersion:
    """A plugin's version and a warning when it comes from no tag."""

    version: str
    warning: str = ""


def discover(base: Path, root: Path, disabled: Collection[str] = ()) -> list[Found]:
    """Return the plugins of `base`/handlers, `base`/adapters and `root`/plugins, by place, then by folder name.

    disabled: plugin names that are not to be loaded. A folder with a plugin that can't be used is in the list with its
    error: a broken manifest, a folder that isn't named like its plugin, a name that an earlier folder holds.
    """
    off = {hyphenated(name) for name in disabled}
    found: list[Found] = []
    holders: dict[str, Found] = {}
    for place, parent in (("handlers", base), ("adapters", base), ("plugins", root)):
        for folder in _plugin_folders(parent.absolute() / place):
            plugin = _found(place, folder, off, holders)
            holders.setdefault(plugin.name, plugin)
            found.append(plugin)
    return found


def unknown_names(names: Collection[str], found: Collection[Found]) -> list[str]:
    """Return a sentence for each of `names` that no plugin has, with the closest name there is."""
    known = {plugin.name for plugin in found}
    return [_unknown(name, known) for name in sorted({hyphenated(name) for name in names} - known)]


def _unknown(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"no plugin is named {name!r}" + (f"; did you mean {close[0]!r}?" if close else "; `pkg -Q` lists them")


def _plugin_folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    entries = sorted(entry for entry in parent.iterdir() if entry.name[0] not in "._")
    return [entry for entry in entries if _is_plugin(entry)]


def _is_plugin(entry: Path) -> bool:
    """A folder left behind by git (no manifest, no entry point) is no plugin; a link to nowhere was meant as one."""
    if not entry.is_dir():
        return entry.is_symlink() and not entry.exists()
    return any(os.path.lexists(entry / file) for file in (MANIFEST_FILE, "plugin.py", "plugin.pyc"))


def _found(place: str, folder: Path, off: Collection[str], holders: dict[str, Found]) -> Found:
    name = hyphenated(folder.name)
    try:
        manifest = load_manifest(folder)
        if manifest.name != name:
            raise ManifestError(
                f"{place}/{folder.name} holds the plugin {manifest.name!r}; name the folder {manifest.name!r} "
                f"or {underscored(manifest.name)!r}, or change the name in its {MANIFEST_FILE}",
                file=str(folder / MANIFEST_FILE),
            )
        if name in holders:
            raise PluginError(
                f"{place}/{folder.name} and {holders[name].where} hold the same plugin {name!r} and the second one is "
                f"left out; remove or rename {place}/{folder.name}"
            )
        return Found(name, place, folder, manifest, name in off)
    except PluginError as error:
        return Found(name, place, folder, None, name in off, error)


def folder_version(folder: Path) -> FolderVersion:
    """Return the version of a plugin in a folder of its own: the git tag at its commit (spec §7.1).

    `v1.2.3` is version 1.2.3, of several tags the highest counts; an untagged commit is `0.0.0+<sha>`, a folder that is
    no repository `0.0.0`.
    """
    if not (folder / ".git").exists():
        return FolderVersion("0.0.0")
    try:
        tags = _git(folder, "tag", "--points-at", "HEAD").split()
        versions = sorted(version for version in map(_tag_version, tags) if version)
        if versions:
            return FolderVersion(str(versions[-1]))
        sha = _git(folder, "rev-parse", "--short=12", "HEAD").strip()
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", "") or str(error)).strip()
        return FolderVersion("0.0.0", f"{folder}: git can't tell its version, so it counts as 0.0.0: {detail}")
    untagged = f"0.0.0+{sha}"
    way_out = f"git -C {folder} tag v0.1.0"
    return FolderVersion(untagged, f"{folder}: no version tag at its commit, so it is {untagged}; tag it: {way_out}")


def _tag_version(tag: str) -> Version | None:
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def _git(folder: Path, *args: str) -> str:
    # A repository of another user is fine (its code is about to run anyway); GIT_DIR of a surrounding hook is not.
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *args]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=_GIT_SECONDS, check=True)
    return done.stdout


def digest(folder: Path) -> str:
    """Return 12 hex digits of a SHA-256 over the plugin's .py, .pyc, .json and .toml files: relative paths and bytes.

    Hidden files and folders, `__pycache__` and `node_modules` don't count. Raises `OSError` for an unreadable file.
    """
    hashed = hashlib.sha256()
    for file in sorted(_files(folder)):
        content = file.read_bytes()
        hashed.update(os.fsencode(file.relative_to(folder).as_posix()) + b"\0%d\0" % len(content))
        hashed.update(content)
    return hashed.hexdigest()[:12]


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_SOURCE and not name.startswith(".")]
        shown = (Path(parent, name) for name in files if not name.startswith("."))
        yield from (file for file in shown if file.suffix in _DIGESTED and file.is_file())


def generation(version: str, folder: Path) -> str:
    """Return the name of this content of a plugin: its version and digest, e.g. `0.2.0+ab12cd34ef56` (PEP 440)."""
    return f"{version}{'.' if '+' in version else '+'}{digest(folder)}"
