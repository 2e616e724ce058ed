"""Which plugins may load, and in which order (spec §7.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.discovery import FolderVersion, Found
from lumia.errors import DependencyError, ManifestError, PluginError, UniqueConflictError
from lumia.manifest import Manifest
from lumia.resolve import Selection, arrange, select


def found(name: str, *, disabled: bool = False, place: str = "plugins", **fields: Any) -> Found:
    return Found(name, place, Path("/bot", place, name), Manifest.model_validate({"name": name, **fields}), disabled)


def chosen(*plugins: Found, core: str = "0.2.0", **versions: str) -> Selection:
    return select(plugins, core, lambda plugin: FolderVersion(versions.get(plugin.name, "1.0.0")))


def accepted(selection: Selection) -> list[str]:
    return [candidate.name for candidate in selection.accepted]


def reason(selection: Selection, name: str) -> str:
    return next(str(error) for plugin, error in selection.rejected if plugin.name == name)


def test_dependencies_come_first_and_names_decide_the_rest() -> None:
    selection = chosen(
        found("delta"), found("alpha", dependencies={"zeta": ">=1"}), found("zeta"), found("beta"), found("gamma")
    )
    assert accepted(selection) == ["beta", "delta", "gamma", "zeta", "alpha"]
    assert selection.rejected == []


def test_a_missing_dependency_is_named_with_the_way_to_get_it() -> None:
    selection = chosen(found("alpha", dependencies={"beta": ""}))
    assert accepted(selection) == []
    assert reason(selection, "alpha") == "alpha needs beta, which is not installed; put it into plugins/beta"


def test_a_rejected_dependency_is_reported_as_a_chain() -> None:
    selection = chosen(
        found("alpha", dependencies={"beta": ""}),
        found("beta", dependencies={"gamma": ""}),
        found("gamma", disabled=True),
    )
    assert [type(error) for _, error in selection.rejected] == [DependencyError, DependencyError]
    assert reason(selection, "alpha") == (
        "alpha needs beta, which is not loaded: beta needs gamma, which is not loaded: "
        "it is disabled in config/lumia.toml"
    )
    assert [plugin.name for plugin in selection.disabled] == ["gamma"]


def test_an_unusable_dependency_says_what_is_wrong_with_it() -> None:
    broken = Found("beta", "plugins", Path("/bot/plugins/beta"), error=ManifestError("beta/manifest.json: line 3"))
    selection = chosen(found("alpha", dependencies={"beta": ""}), broken)
    assert reason(selection, "alpha") == "alpha needs beta, which is not loaded: beta/manifest.json: line 3"
    assert reason(selection, "beta") == "beta/manifest.json: line 3"


def test_a_second_folder_of_a_plugin_does_not_make_it_absent() -> None:
    second = Found("beta", "plugins", Path("/bot/plugins/b"), error=PluginError("twice"))
    selection = chosen(found("alpha", dependencies={"beta": ""}), found("beta"), second)
    assert accepted(selection) == ["beta", "alpha"]
    assert reason(selection, "beta") == "twice"


def test_a_disabled_broken_plugin_is_not_reported() -> None:
    off = Found("beta", "plugins", Path("/bot/plugins/beta"), disabled=True, error=ManifestError("broken"))
    assert chosen(off).rejected == []


@pytest.mark.parametrize(
    "version, wanted, fits",
    [
        ("1.2.0", ">=1.0,<2", True),
        ("0.9.0", ">=1.0", False),
        ("1.0.0rc1", ">=0.9", True),
        ("1.0.0rc1", ">=1.0.0", False),
        ("2.0.0rc1", "<2", False),
        ("0.0.0+ab12cd34ef56", "", True),
        ("0.0.0+ab12cd34ef56", ">=0.1", False),
    ],
)
def test_a_dependency_must_lie_in_the_range(version: str, wanted: str, fits: bool) -> None:
    selection = chosen(found("alpha", dependencies={"beta": wanted}), found("beta"), beta=version)
    assert ("alpha" in accepted(selection)) is fits
    if not fits:
        assert f"alpha needs beta {wanted}, but beta is {version}" in reason(selection, "alpha")


def test_first_party_plugins_have_the_version_of_the_core() -> None:
    own = found("memory", place="handlers")
    selection = select([own, found("alpha", dependencies={"memory": ">=0.2.0"})], "0.2.0")
    assert [(candidate.name, candidate.version) for candidate in selection.accepted] == [
        ("memory", "0.2.0"),
        ("alpha", "0.0.0"),
    ]


@pytest.mark.parametrize("wanted, fits", [("0.2.0", True), ("0.1", True), ("0.3.0", False), ("0.10.0", False)])
def test_the_core_must_be_new_enough(wanted: str, fits: bool) -> None:
    selection = chosen(found("alpha", min_core_version=wanted))
    assert bool(selection.accepted) is fits
    if not fits:
        assert f"alpha needs Lumia {wanted} or newer, this is 0.2.0" in reason(selection, "alpha")


def test_of_two_plugins_with_one_unique_domain_the_later_is_rejected_with_both_names() -> None:
    selection = chosen(found("beta", unique=["response"]), found("alpha", unique=["other", "response"]))
    assert accepted(selection) == ["alpha"]
    (_, error) = selection.rejected[0]
    assert isinstance(error, UniqueConflictError)
    assert "beta and alpha both claim the unique domain 'response'" in str(error)
    assert 'disabled = ["alpha"]' in str(error)


def test_later_means_by_dependencies_first() -> None:
    selection = chosen(
        found("alpha", unique=["response"], dependencies={"zeta": ""}),
        found("beta", unique=["response"]),
        found("zeta"),
    )
    assert accepted(selection) == ["beta", "zeta"]


def test_disabling_a_plugin_frees_its_domain() -> None:
    selection = chosen(found("alpha", unique=["response"], disabled=True), found("beta", unique=["response"]))
    assert accepted(selection) == ["beta"]


def test_a_rejected_plugin_holds_no_domain() -> None:
    selection = chosen(found("alpha", unique=["response"], min_core_version="9"), found("beta", unique=["response"]))
    assert accepted(selection) == ["beta"]


def test_a_circle_is_named_and_so_is_who_depends_on_it() -> None:
    selection = chosen(
        found("alpha", dependencies={"beta": ""}),
        found("beta", dependencies={"gamma": ""}),
        found("gamma", dependencies={"beta": ""}),
        found("self", dependencies={"self": ""}),
        found("whole"),
    )
    assert accepted(selection) == ["whole"]
    assert "circular dependency beta → gamma → beta;" in reason(selection, "beta")
    assert "circular dependency gamma → beta → gamma;" in reason(selection, "gamma")
    assert "circular dependency self → self;" in reason(selection, "self")
    assert reason(selection, "alpha").startswith("alpha needs beta, which is not loaded: circular dependency beta →")


def test_warnings_about_versions_are_passed_on() -> None:
    selection = select([found("alpha")], "0.2.0", lambda _: FolderVersion("0.0.0+abc", "no tag"))
    assert selection.warnings == ["no tag"]


NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.sets(NAMES | st.just("missing"), max_size=3), max_size=8)
ACYCLIC = GRAPHS.map(lambda graph: {name: {other for other in needs if other < name} for name, needs in graph.items()})


def reaches(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for name in graph.get(left.pop(), set()) & graph.keys() - seen:
            seen.add(name)
            left.append(name)
    return seen


@given(GRAPHS)
def test_every_dependency_precedes_and_every_circle_is_real_and_named(graph: dict[str, set[str]]) -> None:
    order, cycles = arrange(graph)
    on_cycles = [name for cycle in cycles for name in cycle]
    assert sorted(order + on_cycles) == sorted(graph)
    for name in order:
        for needed in graph[name] & graph.keys() - set(on_cycles):
            assert order.index(needed) < order.index(name)
    for cycle in cycles:
        assert all(after in graph[name] for name, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        assert cycle[0] == min(cycle)
    circular = {name for name in graph if name in reaches(graph, name)}
    assert set(on_cycles) <= circular
    assert bool(cycles) == bool(circular)


@given(ACYCLIC, st.randoms())
def test_ties_go_by_name_whatever_order_the_plugins_were_found_in(graph: dict[str, set[str]], random: Any) -> None:
    names = list(graph)
    random.shuffle(names)
    order, cycles = arrange({name: graph[name] for name in names})
    assert cycles == []
    placed: list[str] = []
    for name in order:
        ready = [other for other in graph if other not in placed and graph[other] & graph.keys() <= set(placed)]
        assert name == min(ready)
        placed.append(name)
