"""A plugin as its author has it: a folder with a manifest, usually a git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from lumia.errors import ManifestError, PkgError
from lumia.manifest import MANIFEST_FILE, Manifest, hyphenated, load_manifest

GIT_SECONDS = 30.0
SKIPPED = frozenset({"__pycache__", "node_modules", "dist", "build", "venv"})
"""Folders that are no part of a plugin, next to those whose names start with a dot."""


@dataclass(frozen=True)
class Project:
    """A plugin's folder. name: of its manifest, or of the folder while the manifest can't be read."""

    folder: Path
    name: str

    def manifest(self) -> Manifest:
        """Return the manifest as it is now; raises `ManifestError`."""
        return load_manifest(self.folder)

    def file(self, name: str) -> str:
        """Return a file of the plugin as the author would type it from here."""
        path = Path(os.path.relpath(self.folder / name))
        return str(self.folder / name) if path.parts[:1] == ("..",) else path.as_posix()


def find_project(start: Path | None = None) -> Project:
    """Return the plugin of `start` (default: the working folder) or of the nearest folder above it.

    Raises `PkgError` where no folder holds a manifest.
    """
    here = (start or Path.cwd()).expanduser().absolute()
    if not here.exists():
        raise PkgError(f"there is no folder {start}; a version is named with an option, like --tag v1.2.0")
    for folder in (here, *here.parents):
        if (folder / MANIFEST_FILE).is_file():
            return Project(folder, _name_of(folder))
        if (folder / ".git").exists():
            break  # what lies above is another project's
    raise PkgError(
        f"{here} is no plugin: it holds no {MANIFEST_FILE}. Go into a plugin's folder, name one, or make a new plugin "
        "with `pkg dev init NAME`"
    )


def _name_of(folder: Path) -> str:
    try:
        return load_manifest(folder).name
    except ManifestError:  # what is wrong with it is told by those who need it
        return hyphenated(folder.name)


def missing_packages(manifest: Manifest) -> list[str]:
    """Return the `python_dependencies` that this Python lacks, or has in another version."""
    return [text for text in manifest.python_dependencies if not _is_there(Requirement(text))]


def _is_there(wanted: Requirement) -> bool:
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        return wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)
    except (metadata.PackageNotFoundError, InvalidVersion):
        return False


def git(folder: Path, *args: str, timeout: float = GIT_SECONDS, options: Sequence[str] = ()) -> str:
    """Run git in `folder` and return what it prints; raises `PkgError` with git's own words.

    options: those that stand before the command.
    """
    program = shutil.which("git")
    if program is None:
        raise PkgError("git is not on PATH; install it, a plugin's versions are git tags")
    # A surrounding hook's GIT_DIR is another repository's.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _IDENTITY}
    command = [program, "-C", str(folder), *options, *args]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=env, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise PkgError(f"git {args[0]} in {folder} took more than {timeout:g} s") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise PkgError(f"git {args[0]} in {folder} failed: {said or f'exit code {done.returncode}'}")
    return done.stdout


_IDENTITY = frozenset(
    {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_SSH_COMMAND"}
)


def version_of(tag: str) -> Version | None:
    """Return the version a tag stands for, None when it is no version tag."""
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def is_repository(folder: Path) -> bool:
    """Tell whether `folder` is a git repository of its own."""
    return (folder / ".git").exists()


def tag_at_head(folder: Path) -> str | None:
    """Return the highest version tag at the folder's commit, None when there is none."""
    if not is_repository(folder):
        return None
    versions = {tag: version_of(tag) for tag in git(folder, "tag", "--points-at", "HEAD").split()}
    found = [(version, tag) for tag, version in versions.items() if version is not None]
    return max(found)[1] if found else None


def plugin_files(folder: Path) -> list[str]:
    """Return the plugin's files as POSIX paths from its folder: what git would commit, without hidden files.

    Without a repository these are all files but those in hidden folders and in `SKIPPED`.
    """
    if is_repository(folder):
        listed = git(folder, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        files = [name for name in listed if name and (folder / name).is_file()]
    else:
        files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(file for file in files if not any(_is_left_out(part) for part in file.split("/")))


def _is_left_out(part: str) -> bool:
    return part.startswith(".") or part in SKIPPED
