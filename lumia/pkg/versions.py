"""Versions of one plugin, and which of them is taken (spec §13.3; DESIGN §11)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from lumia.pkg.model import Origin
from lumia.pkg.registry_model import Info

SHOWN = 8
"""Versions a message lists."""


def version_of(tag: str) -> Version | None:
    """Return the version a tag stands for (`v1.2.0` → 1.2.0), None for a tag that is none."""
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def fits(version: Version | str, ranges: Iterable[str]) -> bool:
    """Tell whether a version is in all ranges; a prerelease counts where its number lies, as at load time."""
    return all(SpecifierSet(wanted).contains(version, prereleases=True) for wanted in ranges)


@dataclass(frozen=True)
class Offer:
    """One version there is. commit, digest, signature: what the registry says of it. yanked: why not to take it."""

    tag: str
    version: Version
    commit: str | None = None
    digest: str | None = None
    signature: str | None = None
    yanked: str | None = None


@dataclass(frozen=True)
class Source:
    """Where a plugin's versions are. offers: highest first. reported: the registry's answer, if one was asked."""

    origin: Origin
    url: str
    offers: tuple[Offer, ...] = ()
    reported: Info | None = None

    def find(self, tag: str) -> Offer | None:
        """Return the version that somebody calls `tag`: the tag itself, else the same version written otherwise."""
        exact = next((offer for offer in self.offers if offer.tag == tag), None)
        wanted = version_of(tag)
        return exact or next((offer for offer in self.offers if offer.version == wanted), None)

    def candidates(self, ranges: Collection[str] = (), refused: Collection[str] = ()) -> list[Offer]:
        """Return what may be taken unasked, best first: released, not yanked, in all `ranges`, tag not `refused`."""
        return [
            offer
            for offer in self.offers
            if not offer.version.is_prerelease
            and offer.yanked is None
            and offer.tag not in refused
            and fits(offer.version, ranges)
        ]

    @property
    def latest(self) -> Offer | None:
        """Return the highest version that may be taken unasked."""
        return next(iter(self.candidates()), None)

    @property
    def listed(self) -> str:
        """Return the versions there are for a message, e.g. `1.2.0, 1.1.0 and 14 older`."""
        shown = ", ".join(str(offer.version) for offer in self.offers[:SHOWN])
        more = len(self.offers) - SHOWN
        return (shown + (f" and {more} older" if more > 0 else "")) or "none"


def of_registry(info: Info, url: str) -> Source:
    """Return the versions a registry lists."""
    offers = [
        Offer(one.tag, version, one.commit, one.digest, one.signature, one.yanked)
        for one in info.versions
        if (version := version_of(one.tag)) is not None
    ]
    return Source("registry", url, _highest_first(offers), info)


def of_tags(origin: Origin, url: str, tags: Mapping[str, str]) -> Source:
    """Return the versions among a repository's tags. tags: tag → commit."""
    offers = [Offer(tag, version, commit) for tag, commit in tags.items() if (version := version_of(tag)) is not None]
    return Source(origin, url, _highest_first(offers))


def _highest_first(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    return tuple(sorted(offers, key=lambda offer: offer.version, reverse=True))
