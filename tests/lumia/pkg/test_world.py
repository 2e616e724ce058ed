"""What doesn't fit together is told for both sides, and only once for both worlds."""

from __future__ import annotations

from typing import Any

from lumia.manifest import Manifest
from lumia.pkg.world import Present, dependents, ordered, problems, ranges


def present(name: str, version: str = "1.0.0", *, enabled: bool = True, **manifest: Any) -> Present:
    return Present(name, version, Manifest(name=name, **manifest), enabled=enabled)


def world(*plugins: Present) -> dict[str, Present]:
    return {one.name: one for one in plugins}


def test_a_problem_keeps_its_key_while_versions_change() -> None:
    user = present("user", dependencies={"geo": ">=2"})
    old, new = (problems(world(user, present("geo", version))) for version in ("1.0.0", "1.1.0"))
    assert [one.key for one in old] == [one.key for one in new] == [("range", "user", "geo")]
    assert old[0].text != new[0].text


def test_what_is_disabled_claims_and_needs_nothing() -> None:
    off = present("off", enabled=False, unique=["response"], dependencies={"nobody": ""}, min_core_version="99")
    assert problems(world(off, present("on", unique=["response"]))) == []


def test_a_disabled_dependency_says_how_to_turn_it_on() -> None:
    [found] = problems(world(present("user", dependencies={"geo": ""}), present("geo", enabled=False)))
    assert "pkg enable geo" in found.text


def test_users_and_their_ranges_are_found() -> None:
    here = world(present("a", dependencies={"geo": ">=1"}), present("b", dependencies={"geo": "<2"}), present("geo"))
    assert ranges(here, "geo") == {"a 1.0.0": ">=1", "b 1.0.0": "<2"}
    assert dependents(here, frozenset({"geo"})) == {"geo": ["a", "b"]}
    assert dependents(here, frozenset({"geo", "a", "b"})) == {}
    assert ordered(here).index("geo") < min(ordered(here).index(name) for name in "ab")
