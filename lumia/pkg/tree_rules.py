"""What may be in a package, one rule per reason to refuse; the same for a folder and for a commit in git."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lumia.errors import UnsafePackageError
from lumia.pkg.text import named, odd_character, plain

FILE, PROGRAM, LINK, MODULE = 0o100644, 0o100755, 0o120000, 0o160000
_LONGEST_PATH = 240  # bytes; with the bot root before it a path stays below what systems take
_LONGEST_NAME = 200
_DEEPEST = 24
_IGNORED_BY_SOME = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))


@dataclass(frozen=True)
class Limits:
    """How much a package may be. total and file: bytes; pack: bytes of what git transfers for it."""

    files: int = 5_000
    total: int = 64 * 1024 * 1024
    file: int = 16 * 1024 * 1024
    pack: int = 128 * 1024 * 1024


@dataclass(frozen=True)
class Entry:
    """A file, link or submodule. path: with `/`, from the top folder. mode: git's. id: git's, empty in a folder."""

    path: str
    mode: int
    size: int
    id: str = ""


def refused(path: str, reason: str) -> UnsafePackageError:
    """Return the error that names a file of a package and why it may not be there."""
    return UnsafePackageError(f"the package is refused: {plain(path, 120)!r} {reason}")


class Inspector:
    """Sees every entry of one package, then its whole; raises `UnsafePackageError` at the first that may not be."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: dict[str, Entry] = {}
        self._folded: dict[str, str] = {}
        self._folders: set[str] = set()
        self._links: dict[str, str] = {}
        self._total = 0

    def see(self, entry: Entry, target: Callable[[], str]) -> None:
        """Check one entry. target: gives a link's."""
        self._check_amount(entry)
        _check_name(entry.path)
        _check_mode(entry)
        if entry.path in self._seen:
            raise refused(entry.path, "is in the package twice")
        self._seen[entry.path] = entry
        self._check_twins(entry.path)
        if entry.mode == LINK:
            if entry.size > _LONGEST_PATH:
                raise refused(entry.path, f"is a link of {entry.size} bytes; {_LONGEST_PATH} are enough for any path")
            self._links[entry.path] = target()

    def end(self, last: Callable[[dict[str, Entry]], None]) -> None:
        """Check what only the whole tells: where links lead. last: a check of all entries, by path."""
        clash = next((path for path in self._seen if path in self._folders), None)
        if clash is not None:
            raise refused(clash, "is a file and a folder at once")
        for path in self._links:
            self._check_link(path)
        last(self._seen)

    def _check_amount(self, entry: Entry) -> None:
        limits = self._limits
        self._total += entry.size
        if len(self._seen) >= limits.files:
            raise UnsafePackageError(f"the package is refused: it has more than {limits.files} files")
        if entry.size > limits.file:
            raise refused(entry.path, f"has {_mebi(entry.size)}; a file of a package has at most {_mebi(limits.file)}")
        if self._total > limits.total:
            raise UnsafePackageError(f"the package is refused: its files come to more than {_mebi(limits.total)}")

    def _check_twins(self, path: str) -> None:
        """On a file system that ignores case or spelling two such names are one file, and the second wins."""
        parts = path.split("/")
        for depth in range(len(parts), 0, -1):
            spelled = "/".join(parts[:depth])
            if depth < len(parts):
                if spelled in self._folders:
                    return
                self._folders.add(spelled)
            other = self._folded.setdefault(_fold(spelled), spelled)
            if other != spelled:
                raise refused(path, f"and {plain(other, 120)!r} are the same name where case or spelling don't count")

    def _check_link(self, path: str) -> None:
        target = self._links[path]
        if odd := odd_character(target):
            raise refused(path, f"is a link whose target holds {named(odd)}")
        if target.startswith("/") or "\\" in target or ":" in target:
            raise refused(path, f"is a link to {plain(target, 120)!r}; links lead to files of the package, relatively")
        self._follow(path)

    def _follow(self, path: str) -> None:
        """Walk to where a link leads, through other links, as the system would."""
        rest = path.split("/")[::-1]
        place: list[str] = []
        followed = 0
        while rest:
            part = rest.pop()
            if part == "..":
                if not place:
                    raise refused(path, f"is a link out of the package, to {plain(self._links[path], 120)!r}")
                place.pop()
                continue
            if part in ("", "."):
                continue
            place.append(part)
            if _fold(part) == ".git":
                raise refused(path, "is a link into .git")
            target = self._links.get("/".join(place))
            if target is not None:
                followed += 1
                if followed > 40:
                    raise refused(path, "is a link that leads round in a circle")
                if target.startswith("/"):
                    raise refused(path, "is a link out of the package")
                place.pop()
                rest += target.split("/")[::-1]


def _check_name(path: str) -> None:
    if odd := odd_character(path):
        raise refused(path, f"has {named(odd)} in its name, which can't be seen")
    if len(path.encode()) > _LONGEST_PATH or path.count("/") > _DEEPEST:
        raise refused(path, f"is nested too deeply, or longer than {_LONGEST_PATH} bytes")
    parts = path.split("/")
    if "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise refused(path, "is no path inside the package")
    for part in parts:
        _check_part(path, part)


def _check_part(path: str, part: str) -> None:
    bare = _fold(part).rstrip(". ")
    if bare in (".git", "git~1") or bare.startswith(".git:"):
        raise refused(path, "is git's own, or a repository inside the package")
    if bare == ".gitmodules":
        raise refused(path, "names submodules, which a package can't have: copy their files into the repository")
    if bare == "__pycache__":
        raise refused(path, "would be run by Python instead of the source it seems to come from; remove __pycache__")
    if part != part.strip() or len(part.encode()) > _LONGEST_NAME:
        raise refused(path, "has a name that begins or ends with a space, or is too long")


def _check_mode(entry: Entry) -> None:
    if entry.mode == MODULE:
        raise refused(entry.path, "is a submodule, which a package can't have: copy its files into the repository")
    if entry.mode not in (FILE, PROGRAM, LINK):
        raise refused(entry.path, f"has the mode {entry.mode:o}; a package has files, folders and links")


def _fold(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold()).translate(_IGNORED_BY_SOME)


def _mebi(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB" if size % (1024 * 1024) else f"{size // 1024 // 1024} MiB"
