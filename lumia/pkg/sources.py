"""Where versions come from: the registry, a repository's tags, a folder (spec §13.3)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lumia.errors import PlanError, RegistryError, SourceError
from lumia.pkg import requests, revocation, staging
from lumia.pkg.git import Git
from lumia.pkg.model import Locked, Request, Staged
from lumia.pkg.registry import NO_REGISTRY, Registry
from lumia.pkg.revocation import Revoked
from lumia.pkg.versions import Offer, Source, of_registry, of_tags


@dataclass
class Sources:
    """Finds and stages versions for one plan; everything staged is remembered, so that it can be thrown away.

    registry: None when none is configured. warn: told in a sentence what could not be asked.
    """

    root: Path
    git: Git
    registry: Registry | None = None
    warn: Callable[[str], None] = lambda text: None
    say: Callable[[str], None] = lambda text: None
    staged: list[Staged] = field(default_factory=list)
    _known: dict[tuple[str, str], Source] = field(default_factory=dict)
    _revoked: Revoked | None = None

    def named(self, name: str) -> Source:
        """Return the versions the registry lists; raises `RegistryError`."""
        if self.registry is None:
            raise RegistryError(f"{name}: {NO_REGISTRY}")
        key = ("registry", name)
        if key not in self._known:
            self.say(f"asking the registry for {name}")
            info = self.registry.info(name)
            url = requests.check_registry_url(info.git_url, self.registry.url)
            self._known[key] = of_registry(info, url)
        return self._known[key]

    def at(self, url: str) -> Source:
        """Return the versions that the tags of the repository at `url` are; raises `SourceError`."""
        key = ("git", url)
        if key not in self._known:
            self.say(f"reading the tags of {requests.public_url(url)}")
            self._known[key] = of_tags("git", url, {tag.name: tag.commit for tag in self.git.tags(url)})
        return self._known[key]

    def of(self, locked: Locked) -> Source:
        """Return the versions an installed plugin can change to: from where it came.

        A registry that is down, or has forgotten the plugin, is replaced by the tags of the plugin's repository.
        """
        if locked.origin == "folder":
            return Source("folder", locked.url)
        if locked.origin == "git":
            return self.at(locked.url)
        try:
            found = self.named(locked.name)
        except RegistryError as error:
            self.warn(f"{error}; the tags of {requests.public_url(locked.url)} are used instead")
            return self.at(locked.url)
        if not same_place(found.url, locked.url):
            raise PlanError(
                f"{locked.name} was installed from {requests.public_url(locked.url)}, but the registry now names "
                f"{requests.public_url(found.url)}; if that is right, `pkg -S {locked.name} --force` changes over"
            )
        return found

    def stage(self, request: Request, source: Source, offer: Offer | None) -> Staged:
        """Fetch and check one version. offer: None takes what the place has: a folder as it is, an untagged commit."""
        shown = request.name or request.text
        self.say(f"fetching {shown}{f' {offer.tag}' if offer else ''}")
        staged = staging.stage(
            request,
            url=source.url,
            tag=offer.tag if offer else request.tag,
            root=self.root,
            git=self.git,
            commit=offer.commit if offer else None,
            expected_digest=offer.digest if offer else None,
            signatures=[offer.signature] if offer and offer.signature else [],
            revoked=self.revoked(),
        )
        self.staged.append(staged)
        return staged

    def revoked(self) -> Revoked:
        """Return what is revoked: as the registry says now, or said when it was last reached."""
        if self._revoked is None:
            self._revoked = revoked_now(self.root, self.registry, self.warn)
        return self._revoked

    def discard(self, keep: frozenset[Path] = frozenset()) -> None:
        """Throw away what was staged, except the folders in `keep`."""
        for one in self.staged:
            if one.folder not in keep:
                staging.discard(one)
        self.staged = [one for one in self.staged if one.folder in keep]


def revoked_now(root: Path, registry: Registry | None, warn: Callable[[str], None]) -> Revoked:
    """Return what is revoked, as the registry says now; what it said last when it can't be asked, which is warned of.

    Raises `RegistryError` when what it said last can't be read.
    """
    if registry is None:
        return revocation.load(root)
    try:
        return revocation.save(root, registry.revoked().model_dump(mode="json"))
    except RegistryError as error:
        warn(f"{error}; what was revoked since then isn't known")
        return revocation.load(root)


def same_place(one: str, other: str) -> bool:
    """Tell whether two URLs name the same repository: without credentials, a last `/` and `.git`."""

    def bare(url: str) -> str:
        return requests.public_url(url).rstrip("/").removesuffix(".git").rstrip("/")

    return bare(one) == bare(other)


def lookup(sources: Sources, request: Request) -> Source:
    """Return the versions at the place a request names; raises `PkgError`."""
    if request.origin == "registry":
        assert request.name is not None
        return sources.named(request.name)
    if request.url is None:
        raise SourceError(f"{request.text} names no place")
    if request.origin == "folder":
        return Source("folder", os.path.normpath(request.url))
    return sources.at(request.url)
