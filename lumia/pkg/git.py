"""Plugins' repositories, through the real git, with everything off that a repository could make it do (spec §13.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from lumia.pkg.tree import Limits

Progress = Callable[[str, float | None], None]
"""Called with what is being done and how much of it is (0 to 1, None when nobody knows)."""


@dataclass(frozen=True)
class Tag:
    """A tag of a repository that is a version. commit: what it points at, 40 hex digits."""

    name: str
    version: Version
    commit: str


@dataclass(frozen=True)
class Checkout:
    """What lies in a folder now. tag: None for an untagged commit. cached: the network was not there, so the cache's is it."""

    commit: str
    tag: str | None
    cached: bool = False


def latest(tags: Iterable[Tag], *, prereleases: bool = False) -> Tag | None:
    """Return the tag of the highest version; prereleases only when asked for."""
    raise NotImplementedError


class Git:
    """Repositories by URL. cache: folder of bare mirrors (data/pkg/cache). timeout: seconds for one command of git."""

    def __init__(
        self, cache: Path, *, timeout: float = 120.0, limits: Limits | None = None, progress: Progress | None = None
    ) -> None:
        raise NotImplementedError

    def tags(self, url: str) -> tuple[Tag, ...]:
        """Return the version tags of the repository at `url`, highest last. Raises `SourceError`."""
        raise NotImplementedError

    def checkout(self, url: str, ref: str, into: Path, *, commit: str | None = None) -> Checkout:
        """Put the files of a tag or of a commit (40 hex digits) into the new folder `into`, with a `.git` of its own.

        commit: what the tag has to point at. Raises `SourceError` when it can't be had, `UnsafePackageError` when it
        may not be on this disk, or the tag points elsewhere.
        """
        raise NotImplementedError

    def clear(self) -> int:
        """Empty the cache and return how many bytes it held (`pkg -Sc`)."""
        raise NotImplementedError
