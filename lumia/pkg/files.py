"""Moving, writing and removing files so that a power cut leaves the old or the new, and undoing never needs luck."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from lumia.atomic import sync_folder

_MANY = 300
"""Files above which one `sync` of everything is cheaper than syncing each."""


def sync_tree(folder: Path) -> None:
    """Bring everything below a folder to the disk."""
    paths = list(_all(folder))
    if len(paths) > _MANY:
        os.sync()
        return
    for path in paths:
        if path.is_symlink():
            continue
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


def _all(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*files, *folders))


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder, links not followed."""
    return sum(path.lstat().st_size for path in _all(folder) if not stat.S_ISDIR(path.lstat().st_mode))


def make_folder(folder: Path) -> None:
    """Make a folder of `pkg`'s own and those above it, open to this user only."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def write(path: Path, data: bytes) -> None:
    """Write a new file of `pkg`'s own and bring it to the disk; nobody else may read it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def move(source: Path, target: Path) -> None:
    """Rename within one file system, and bring it to the disk; `target` must not be there."""
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def bring(source: Path, target: Path) -> None:
    """Move a folder, from another file system by copying it; then everything in it is on the disk."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(source, target, symlinks=True)
        remove(source)
    sync_tree(target)
    sync_folder(target.parent)


def can_rename(source: Path, target: Path) -> bool:
    """Tell whether files move from folder to folder without being copied; raises `OSError` if one can't be written.

    Asked by doing it: two mounts of one file system have the same device number and still refuse.
    """
    probe, there = source / ".pkg-probe", target / ".pkg-probe"
    probe.touch(mode=0o600)
    try:
        probe.rename(there)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        there.touch(mode=0o600)  # still: it has to be writable
        return False
    finally:
        probe.unlink(missing_ok=True)
        there.unlink(missing_ok=True)
    return True


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with everything in it, also where rights were taken away; absent is fine."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
        return
    if not path.is_dir():
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        for parent, _, _ in os.walk(path):
            os.chmod(parent, 0o700)
        shutil.rmtree(path)
    except FileNotFoundError:
        shutil.rmtree(path, ignore_errors=True)
