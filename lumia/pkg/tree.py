"""The tree of files a package is: what may be in it, and its digest (docs/signing.md)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from lumia.errors import SourceError, UnsafePackageError
from lumia.manifest import MANIFEST_FILE, MAX_BYTES
from lumia.pkg.git_process import GitFailed, piped
from lumia.pkg.tree_rules import FILE, LINK, MODULE, PROGRAM, Entry, Inspector, Limits, refused

__all__ = [
    "LINK",
    "PROGRAM",
    "Entry",
    "Limits",
    "check",
    "check_commit",
    "check_listed",
    "digest",
    "digest_commit",
    "entries",
    "entries_of_commit",
]

HEADER = b"lumia-tree-v1\n"
_LOCAL_SECONDS = 60.0
_CHUNK = 1 << 20
_FOLDER, _MOST_FOLDERS = 0o40000, 5_000
_LONGEST_TARGET = 8192
_GIT, _CACHE = ".git", "__pycache__"


def check(folder: Path, limits: Limits | None = None) -> None:
    """Raise `UnsafePackageError`, naming file and reason, when the files of `folder` are none for a package."""
    inspector = Inspector(limits or Limits())
    for entry in entries(folder, made_by_python=True):
        inspector.see(entry, partial(os.readlink, folder / entry.path))
    inspector.end(_needs_manifest)


def check_listed(folder: Path, paths: Iterable[str], limits: Limits | None = None) -> list[Entry]:
    """Like `check` for some files of a folder, and return them."""
    inspector = Inspector(limits or Limits())
    listed = []
    for path in paths:
        entry = _entry(path, (folder / path).lstat())
        inspector.see(entry, partial(os.readlink, folder / entry.path))
        listed.append(entry)
    inspector.end(_needs_manifest)
    return listed


def check_commit(repository: Path, commit: str, limits: Limits | None = None) -> None:
    """Like `check` for a commit of a git repository (its folder or bare), without writing any of it to disk."""
    inspector = Inspector(limits or Limits())
    with closing(entries_of_commit(repository, commit)) as listed:
        for entry in listed:
            inspector.see(entry, partial(_link_target, repository, entry))
    inspector.end(_needs_manifest)


def _needs_manifest(seen: dict[str, Entry]) -> None:
    manifest = seen.get(MANIFEST_FILE)
    if manifest is None:
        raise UnsafePackageError(
            f"there is no {MANIFEST_FILE} in its top folder, so it is no plugin; its author adds one with at least "
            '{"name": "…"}'
        )
    if manifest.mode not in (FILE, PROGRAM):
        raise refused(MANIFEST_FILE, "is a link; a manifest is a file of its own")
    if manifest.size > MAX_BYTES:
        raise refused(MANIFEST_FILE, f"has {manifest.size} bytes; a manifest has at most {MAX_BYTES}")


def digest(folder: Path) -> str:
    """Return `sha256:` and 64 hex digits over paths, modes and contents below `folder`.

    `.git` in the top folder and every `__pycache__` don't count. Raises `OSError` for an unreadable file,
    `UnsafePackageError` for what has no digest: devices, sockets, nested repositories, names that aren't UTF-8.
    """
    return _digest((entry, _hash_of(folder / entry.path, entry)) for entry in entries(folder))


def digest_commit(repository: Path, commit: str) -> str:
    """Return the digest of a commit's tree: that of a folder it is checked out to."""
    listed = list(entries_of_commit(repository, commit))
    for entry in listed:
        if entry.mode == MODULE:
            raise refused(entry.path, "is a submodule")
    return _digest(zip(listed, _blob_hashes(repository, listed), strict=True))


def _digest(parts: Iterable[tuple[Entry, str]]) -> str:
    lines = sorted((entry.path.encode(), f"{entry.mode:o} {content} ".encode()) for entry, content in parts)
    return "sha256:" + hashlib.sha256(HEADER + b"".join(head + path + b"\n" for path, head in lines)).hexdigest()


def entries(folder: Path, *, made_by_python: bool = False) -> Iterator[Entry]:
    """Yield the files and links below `folder`, links not followed, without `.git` in the top folder.

    made_by_python: with what is in `__pycache__`.
    """
    yield from _below(folder, "", made_by_python)


def _below(folder: Path, prefix: str, made_by_python: bool) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        children = sorted(found, key=lambda child: child.name)
    for child in children:
        path = prefix + child.name
        if path == _GIT or (child.name == _CACHE and not made_by_python):
            continue
        status = child.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            yield from _below(Path(child.path), path + "/", made_by_python)
        else:
            yield _entry(path, status)


def _entry(path: str, status: os.stat_result) -> Entry:
    return Entry(_utf8(path), _mode(path, status), status.st_size)


def _mode(path: str, status: os.stat_result) -> int:
    if stat.S_ISLNK(status.st_mode):
        return LINK
    if stat.S_ISDIR(status.st_mode):
        raise refused(path, "is a repository inside the package; copy its files, without its .git")
    if not stat.S_ISREG(status.st_mode):
        raise refused(path, "is a device, pipe or socket; a package has files, folders and links")
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise refused(path, "would run with its owner's rights (setuid); take the bit off: chmod a-s")
    return PROGRAM if status.st_mode & stat.S_IXUSR else FILE


def _utf8(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise refused(path.encode(errors="backslashreplace").decode(), "has a name that isn't UTF-8") from None
    return path


def _hash_of(path: Path, entry: Entry) -> str:
    if entry.mode == LINK:
        return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def entries_of_commit(repository: Path, commit: str) -> Generator[Entry, None, None]:
    """Yield the entries of a commit's tree, files, links and submodules, as git lists them; stop whenever you like."""
    folders = 0
    with _asked(repository, ["ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit]) as out:
        rest = b""
        while chunk := out.read(64 * 1024):
            *records, rest = (rest + chunk).split(b"\0")
            for entry in map(_record, records):
                if entry.mode != _FOLDER:
                    yield entry
                elif (folders := folders + 1) > _MOST_FOLDERS:  # empty ones can be without number
                    raise UnsafePackageError(f"the package is refused: it has more than {_MOST_FOLDERS} folders")


def _record(record: bytes) -> Entry:
    head, _, raw = record.partition(b"\t")
    digits, _, id, size = head.split()
    mode = FILE if digits == b"100664" else int(digits, 8)
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        raise refused(raw.decode("utf-8", "backslashreplace"), "has a name that isn't UTF-8") from None
    return Entry(path, mode, int(size) if size != b"-" else 0, id.decode())


def _link_target(repository: Path, entry: Entry) -> str:
    with _asked(repository, ["cat-file", "blob", entry.id]) as out:
        return out.read(_LONGEST_TARGET).decode("utf-8", "replace")


def _blob_hashes(repository: Path, listed: list[Entry]) -> Iterator[str]:
    ids = "".join(f"{entry.id}\n" for entry in listed).encode()
    with _asked(repository, ["cat-file", "--batch"], ids) as out:
        for entry in listed:
            head = out.readline().split()
            if len(head) != 3 or head[1] != b"blob":
                raise SourceError(
                    f"{entry.path}: the repository lacks its content; clear the cache (pkg -Sc) and try again"
                )
            yield _hashed(out.read, int(head[2]))
            out.read(1)


def _hashed(read: Callable[[int], bytes], size: int) -> str:
    hashed = hashlib.sha256()
    while size and (chunk := read(min(size, _CHUNK))):
        hashed.update(chunk)
        size -= len(chunk)
    return hashed.hexdigest()


@contextmanager
def _asked(repository: Path, args: list[str], stdin: bytes = b"") -> Iterator[IO[bytes]]:
    """Give the output of one command of git in a repository; its failure is a `SourceError`."""
    inner = repository / _GIT
    place = inner if inner.exists() else repository
    try:
        with piped(["--git-dir", str(place), *args], timeout=_LOCAL_SECONDS, stdin=stdin) as out:
            yield out
    except GitFailed as error:
        raise SourceError(f"{repository}: git can't read it: {error.text}") from None
