"""Plugins' repositories, through the real git, with everything off that a repository could make it do (spec §13.3)."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import quote

from packaging.version import InvalidVersion, Version

from lumia.errors import SourceError, UnsafePackageError
from lumia.pkg.cache import MAX_BYTES, Cache
from lumia.pkg.git_checkout import resolved, write
from lumia.pkg.git_process import GitFailed, Progress, run
from lumia.pkg.git_remote import ask, explain, over_network, shown
from lumia.pkg.requests import check_url, is_tag, public_url
from lumia.pkg.tree import Limits, check_commit

__all__ = ["Checkout", "Git", "Progress", "Tag", "is_commit", "latest", "tag_version"]

T = TypeVar("T")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LISTING = 8 * 1024 * 1024
_LOCAL_SECONDS = 60.0


@dataclass(frozen=True)
class Tag:
    """A tag of a repository that is a version. commit: what it points at, 40 hex digits."""

    name: str
    version: Version
    commit: str


@dataclass(frozen=True)
class Checkout:
    """What lies in a folder now. tag: None for an untagged commit. cached: from the cache, as the network is away."""

    commit: str
    tag: str | None
    cached: bool = False


def is_commit(ref: str) -> bool:
    """Tell whether `ref` is a whole commit id: 40 hex digits."""
    return bool(_COMMIT.fullmatch(ref))


def tag_version(tag: str) -> Version | None:
    """Return the version a tag names (`v1.2.3` is 1.2.3), None when it names none."""
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def latest(tags: Iterable[Tag], *, prereleases: bool = False) -> Tag | None:
    """Return the tag of the highest version; prereleases only when asked for."""
    wanted = [tag for tag in tags if prereleases or not tag.version.is_prerelease]
    return max(wanted, key=lambda tag: tag.version, default=None)


class Git:
    """Repositories by URL.

    cache: folder of bare mirrors (data/pkg/cache), of at most `cache_bytes`. timeout: seconds for one command of git
    over the network. progress: told what is being done.
    """

    def __init__(
        self,
        cache: Path,
        *,
        timeout: float = 120.0,
        limits: Limits | None = None,
        progress: Progress | None = None,
        cache_bytes: int = MAX_BYTES,
    ) -> None:
        self._cache = Cache(cache, max_bytes=cache_bytes)
        self._timeout = timeout
        self._limits = limits or Limits()
        self._progress = progress

    def tags(self, url: str) -> tuple[Tag, ...]:
        """Return the version tags of the repository at `url`, highest last. Raises `SourceError`."""
        return tuple(sorted(self._listed(url), key=lambda tag: (tag.version, tag.name)))

    def head(self, url: str) -> str:
        """Return the commit the repository's HEAD is at. Raises `SourceError`."""
        out = self._ask(url, ["ls-remote"], "HEAD")
        commit = out.split("\t")[0]
        if not is_commit(commit):
            raise SourceError(f"{shown(url)} has no commit yet; commit the plugin and tag it: git tag v0.1.0")
        return commit

    def checkout(self, url: str, ref: str, into: Path, *, commit: str | None = None) -> Checkout:
        """Put the files of a tag or of a commit (40 hex digits) into the new folder `into`, with a `.git` of its own.

        commit: what the tag has to point at; when the cache has the tag there, it also does while the network is away.

        Raises `SourceError` when it can't be had, `UnsafePackageError` when it may not be on this disk, or the tag
        points elsewhere.
        """
        tag = None if is_commit(ref) else ref
        return self._from_mirror(url, lambda mirror: self._get(url, mirror, tag, commit or ref), into, commit)

    def checkout_locked(self, url: str, tag: str | None, commit: str, into: Path) -> Checkout:
        """Like `checkout` for a commit that a lock records, also when its tag was moved or deleted meanwhile."""
        return self._from_mirror(url, lambda mirror: self._get_locked(url, mirror, tag, commit), into, commit)

    def keep(self, url: str, folder: Path, commit: str) -> None:
        """Put a commit of the repository in `folder` into the cache, as if it came from `url`."""
        source = "file://" + quote(str(folder.absolute()))
        with self._cache.held():
            into = ["--git-dir", str(self._mirror(url)), "fetch", "-q", "--no-tags", "--no-write-fetch-head"]
            try:
                run([*into, "--", source, f"+{commit}:refs/lumia/{commit}"], timeout=_LOCAL_SECONDS)
            except GitFailed as error:
                raise SourceError(f"{folder}: it can't be kept in the cache: {error.text}") from None
            self._cache.trim()

    def clear(self) -> int:
        """Empty the cache and return how many bytes it held (`pkg -Sc`)."""
        return self._cache.clear()

    def _from_mirror(self, url: str, get: Callable[[Path], Checkout], into: Path, wanted: str | None) -> Checkout:
        check_url(url)
        with self._cache.held():
            got = self._tried_twice(url, get)
            if wanted is not None and got.commit != wanted:
                raise UnsafePackageError(
                    f"{shown(url)}: the tag {got.tag} is at {got.commit[:12]} and was at {wanted[:12]} when it was "
                    "recorded, so somebody moved it. Ask its author why; to take what is there now, install it by "
                    f"{shown(url)}@{got.commit}"
                )
            mirror = self._cache.path(public_url(url))
            check_commit(mirror, got.commit, self._limits)
            try:
                write(mirror, got.commit, got.tag, into, public_url(url))
            except BaseException:
                shutil.rmtree(into, ignore_errors=True)
                raise
            self._cache.trim()
        return got

    def _tried_twice(self, url: str, get: Callable[[Path], Checkout]) -> Checkout:
        """A mirror that a killed process or a full disk left half-made is made anew, once."""
        try:
            return get(self._mirror(url))
        except _BrokenMirror:
            self._cache.drop(self._cache.path(public_url(url)))
        try:
            return get(self._mirror(url))
        except _BrokenMirror as error:
            explain(url, error.failed)

    def _mirror(self, url: str) -> Path:
        try:
            return self._cache.mirror(public_url(url))
        except GitFailed as error:
            explain(url, error)

    def _get(self, url: str, mirror: Path, tag: str | None, wanted: str) -> Checkout:
        if tag is None:
            return self._get_commit(url, mirror, None, wanted)
        ref = f"refs/tags/{tag}"
        have = resolved(mirror, ref)
        try:
            # Also when the commit is here: the tag may have been signed since.
            self._fetch(url, mirror, f"+{ref}:{ref}")
        except GitFailed as error:
            if have == wanted and error.kind in ("offline", "late", "absent", "denied"):
                return Checkout(wanted, tag)
            if error.kind in ("offline", "late") and have is not None:
                return Checkout(have, tag, cached=True)
            if error.kind == "absent":
                self._explain_absent(url, tag, error)
            explain(url, error)
        got = resolved(mirror, ref)
        if got is None:
            raise SourceError(f"{shown(url)}: the tag {tag} points at no commit")
        return Checkout(got, tag)

    def _get_locked(self, url: str, mirror: Path, tag: str | None, commit: str) -> Checkout:
        """Fetch the tag if it still leads to the commit, for it may carry signatures; else the commit alone."""
        if tag is not None and resolved(mirror, commit) != commit:
            try:
                self._fetch(url, mirror, f"+refs/tags/{tag}:refs/tags/{tag}")
            except GitFailed as error:
                if error.kind != "absent":
                    explain(url, error)
        return self._get_commit(url, mirror, tag, commit)

    def _get_commit(self, url: str, mirror: Path, tag: str | None, commit: str) -> Checkout:
        if resolved(mirror, commit) == commit:
            return Checkout(commit, tag)
        try:
            try:
                self._fetch(url, mirror, commit)
            except GitFailed as error:
                if error.kind not in ("absent", "other"):
                    raise
                # A server that gives away only what a ref points at; so all refs, with their history.
                self._cache.drop(mirror)
                self._fetch(url, self._mirror(url), "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", depth=0)
        except GitFailed as error:
            explain(url, error)
        if resolved(mirror, commit) != commit:
            raise SourceError(f"{shown(url)} has no commit {commit}; it may have been removed from the repository")
        return Checkout(commit, tag)

    def _fetch(self, url: str, mirror: Path, *refspecs: str, depth: int = 1) -> None:
        command = ["--git-dir", str(mirror), "fetch", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]
        shallow = [f"--depth={depth}"] if depth else []
        try:
            over_network(
                [*command, "--force", "--progress", *shallow],
                url,
                refspecs,
                timeout=self._timeout,
                max_file=self._limits.pack,
                progress=self._progress,
            )
        except GitFailed as error:
            for left in mirror.glob("objects/pack/tmp_*"):
                left.unlink(missing_ok=True)
            if error.kind == "dumb" and depth:
                return self._fetch(url, mirror, *refspecs, depth=0)
            if "shallow.lock" in error.text or "index.lock" in error.text or "bad object" in error.text:
                raise _BrokenMirror(error) from None
            raise

    def _explain_absent(self, url: str, tag: str, error: GitFailed) -> NoReturn:
        try:
            names = [one.name for one in reversed(self.tags(url))]
        except SourceError:
            explain(url, error)
        close = difflib.get_close_matches(tag, names, n=1) or [name for name in (f"v{tag}", tag[1:]) if name in names]
        hint = f"; did you mean {close[0]}?" if close else f"; its versions are {', '.join(names[:8])}" if names else ""
        raise SourceError(f"{shown(url)} has no tag {tag}{hint or ', nor any other version tag'}")

    def _listed(self, url: str) -> list[Tag]:
        commits: dict[str, str] = {}
        for line in self._ask(url, ["ls-remote", "--tags"]).splitlines():
            commit, _, ref = line.partition("\t")
            name = ref.removeprefix("refs/tags/")
            peeled = name.endswith("^{}")
            if peeled or name not in commits:
                commits[name.removesuffix("^{}")] = commit
        versions = ((name, tag_version(name), commit) for name, commit in commits.items() if is_tag(name))
        return [Tag(name, version, commit) for name, version, commit in versions if version and is_commit(commit)]

    def _ask(self, url: str, command: Sequence[str], *patterns: str) -> str:
        if self._progress is not None:
            self._progress("Asking " + shown(url), None)
        return ask(url, command, timeout=self._timeout, patterns=patterns)


class _BrokenMirror(Exception):
    def __init__(self, failed: GitFailed) -> None:
        super().__init__(failed.text)
        self.failed = failed
