"""Which version of a plugin is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from lumia.pkg.versions import Source, fits, of_tags, version_of

TAGS = st.lists(
    st.builds("v{}.{}.{}{}".format, *[st.integers(0, 30)] * 3, st.sampled_from(["", "", "rc1", ".dev2"])), unique=True
)


def source(*tags: str) -> Source:
    return of_tags("git", "file:///x", dict.fromkeys(tags, "a" * 40))


@pytest.mark.parametrize("tag, version", [("v1.2.0", "1.2.0"), ("V3", "3"), ("v1.0.0-rc.1", "1.0.0rc1")])
def test_a_tag_is_a_version(tag: str, version: str) -> None:
    assert version_of(tag) == Version(version)


@pytest.mark.parametrize("tag", ["", "latest", "v", "release-1", "1.x"])
def test_other_tags_are_none(tag: str) -> None:
    assert version_of(tag) is None
    assert source(tag, "v1.0.0").listed == "1.0.0"


@given(TAGS)
def test_the_latest_is_the_highest_release_whatever_the_order(tags: list[str]) -> None:
    found = source(*tags)
    released = [Version(tag) for tag in tags if not Version(tag).is_prerelease]
    assert (found.latest.version if found.latest else None) == max(released, default=None)
    assert [offer.version for offer in found.offers] == sorted(map(Version, tags), reverse=True)


@given(TAGS, st.integers(0, 30), st.integers(0, 30))
def test_candidates_are_in_every_range(tags: list[str], low: int, high: int) -> None:
    ranges = [f">={low}", f"<{high}"]
    assert all(fits(offer.version, ranges) for offer in source(*tags).candidates(ranges))


def test_a_version_is_found_by_its_tag_or_its_number() -> None:
    found = source("v1.2.0", "1.3")
    assert [offer and offer.tag for offer in map(found.find, ("v1.2.0", "1.2", "v1.3.0", "2"))] == [
        "v1.2.0",
        "v1.2.0",
        "1.3",
        None,
    ]


def test_many_versions_are_told_shortly() -> None:
    assert source(*(f"v1.{number}.0" for number in range(20))).listed.endswith("1.12.0 and 12 older")
    assert source().listed == "none"
