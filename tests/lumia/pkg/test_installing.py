"""Planning `pkg -S`: versions that fit together, from real repositories and a real HTTP registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumia.errors import PlanError, RegistryError
from tests.support.planned import Planned, planned, steps
from tests.support.plugin_repos import Repository, repository
from tests.support.registry import Answer, FakeRegistry, fake_registry


@dataclass
class Scene:
    """A bot, a registry, and plugins there are: weather needs geo; maps needs an old geo."""

    bot: Planned
    server: FakeRegistry
    weather: Repository
    geo: Repository
    maps: Repository
    parent: Path

    def new(self, name: str) -> Repository:
        return repository(self.parent, name)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    parent = tmp_path_factory.mktemp("repositories")
    found = {name: repository(parent, name) for name in ("weather", "geo", "maps")}
    for tag in ("v0.3.0", "v0.4.0", "v0.5.0", "v1.0.0rc1"):
        found["geo"].release(tag)
    found["weather"].release("v1.0.0", dependencies={"geo": ">=0.3"})
    found["weather"].release("v1.1.0", dependencies={"geo": ">=0.4"})
    found["weather"].release("v2.0.0rc1", dependencies={"geo": ">=0.4"})
    found["maps"].release("v1.0.0", dependencies={"geo": "<0.5"})
    return found


@pytest.fixture
def scene(repositories: dict[str, Repository], tmp_path: Path) -> Iterator[Scene]:
    with fake_registry(list(repositories.values())) as server:
        bot = planned(tmp_path / "bot", server)
        yield Scene(bot, server, **repositories, parent=tmp_path / "repositories")


# --- what is taken


def test_the_latest_release_comes_with_what_it_needs(scene: Scene) -> None:
    plan = scene.bot.install("weather")
    assert steps(plan) == ["install geo 0.5.0", "install weather 1.1.0"]
    geo, weather = plan.actions
    assert geo.after is not None and weather.after is not None
    assert (geo.after.requested, geo.reason, weather.after.requested) == (False, "weather 1.1.0 needs it", True)
    assert geo.staged is not None and (geo.staged.folder / "manifest.json").is_file()


def test_a_version_is_taken_when_its_tag_is_named(scene: Scene) -> None:
    assert steps(scene.bot.install("geo@v0.3.0")) == ["install geo 0.3.0"]
    assert steps(scene.bot.install("geo@0.4.0")) == ["install geo 0.4.0"]
    assert steps(scene.bot.install("geo@v1.0.0rc1")) == ["install geo 1.0.0rc1"]


def test_a_range_of_one_user_leads_to_the_version_that_suits_all(scene: Scene) -> None:
    assert steps(scene.bot.install("weather", "maps")) == [
        "install geo 0.4.0",
        "install maps 1.0.0",
        "install weather 1.1.0",
    ]


def test_an_address_needs_no_registry(scene: Scene) -> None:
    scene.bot.server = None
    assert steps(scene.bot.install(scene.geo.url)) == ["install geo 0.5.0"]
    assert steps(scene.bot.install(f"{scene.geo.url}@v0.3.0")) == ["install geo 0.3.0"]


def test_a_commit_can_be_named(scene: Scene) -> None:
    commit = scene.geo.git("rev-parse", "v0.3.0^{commit}").strip()
    assert steps(scene.bot.install(f"{scene.geo.url}@{commit}"))[0].startswith("install geo 0.")


def test_what_is_asked_for_serves_as_dependency(scene: Scene) -> None:
    scene.bot.server = None
    assert steps(scene.bot.install(scene.weather.url, scene.geo.url)) == ["install geo 0.5.0", "install weather 1.1.0"]


def test_a_folder_is_taken_as_it_is(scene: Scene) -> None:
    scene.bot.server = None
    plan = scene.bot.install(str(scene.geo.folder))
    assert steps(plan) == ["install geo 1.0.0rc1"]
    assert plan.actions[0].after is not None and plan.actions[0].after.origin == "folder"


def test_installed_dependencies_stay_when_they_fit_and_rise_when_they_do_not(scene: Scene) -> None:
    scene.bot.has(scene.geo, "v0.4.0")
    assert steps(scene.bot.install("weather")) == ["install weather 1.1.0"]
    scene.bot.has(scene.geo, "v0.3.0", requested=False)
    plan = scene.bot.install("weather")
    assert steps(plan) == ["upgrade geo 0.3.0 → 0.5.0", "install weather 1.1.0"]
    assert plan.actions[0].after is not None and not plan.actions[0].after.requested


def test_a_registry_that_is_down_after_it_was_asked_once_is_no_hindrance(scene: Scene) -> None:
    scene.bot.install("geo")
    scene.server.answers["/pkg/geo"] = Answer({}, 503)
    assert steps(scene.bot.install("geo")) == ["install geo 0.5.0"]
    assert any("what it said before" in text for text in scene.bot.warnings)


def test_what_is_installed_already_is_no_change(scene: Scene) -> None:
    scene.bot.has(scene.geo, "v0.5.0")
    plan = scene.bot.install("geo")
    assert (plan.actions, plan.warnings) == ((), ("geo 0.5.0 is installed already",))
    assert steps(scene.bot.install("geo", force=True)) == ["upgrade geo 0.5.0 → 0.5.0"]


def test_an_older_version_comes_only_by_its_tag(scene: Scene) -> None:
    scene.bot.has(scene.geo, "v1.0.0rc1")
    assert steps(scene.bot.install("geo")) == []
    assert steps(scene.bot.install("geo@v0.4.0")) == ["downgrade geo 1.0.0rc1 → 0.4.0"]


def test_a_withdrawn_version_is_passed_over_and_taken_with_a_warning_when_named(scene: Scene) -> None:
    info = scene.server.answers["/pkg/geo"].body
    next(one for one in info["versions"] if one["tag"] == "v0.5.0")["yanked"] = "eats\x1b[31m maps"
    assert steps(scene.bot.install("geo")) == ["install geo 0.4.0"]
    assert "geo 0.5.0 was withdrawn: eats maps" in scene.bot.install("geo@v0.5.0").warnings


def test_a_disabled_plugin_stays_disabled(scene: Scene) -> None:
    scene.bot.disable("geo")
    plan = scene.bot.install("geo")
    assert plan.actions[0].after is not None and not plan.actions[0].after.enabled
    assert any("pkg enable geo" in text for text in plan.warnings)


def test_python_packages_of_all_plugins_are_collected_but_not_those_of_isolated_ones(scene: Scene) -> None:
    one, other = scene.new("one"), scene.new("other")
    one.release("v1.0.0", python_dependencies=["feedparser>=6"])
    other.release("v1.0.0", python_dependencies=["numpy"], isolation="process")
    scene.bot.has(one, "v1.0.0")
    assert scene.bot.install(other.url).python == {"one": ("feedparser>=6",)}


# --- what is refused, with both sides and the way out


def refused(scene: Scene, *texts: str) -> str:
    with pytest.raises(PlanError) as caught:
        scene.bot.install(*texts)
    return str(caught.value)


def test_a_version_that_is_not_there(scene: Scene) -> None:
    assert "there is no version v7; there are 1.0.0rc1, 0.5.0" in refused(scene, "geo@v7")


def test_two_ranges_that_exclude_each_other_name_both_plugins(scene: Scene) -> None:
    picky = scene.new("picky")
    picky.release("v1.0.0", dependencies={"geo": ">=0.5"})
    told = refused(scene, picky.url, "maps")
    assert "no version of geo fits" in told
    assert "picky 1.0.0 needs geo >=0.5" in told and "maps 1.0.0 needs geo <0.5" in told


def test_a_version_that_was_named_is_not_exchanged(scene: Scene) -> None:
    told = refused(scene, "weather", "geo@v0.3.0")
    assert "geo 0.3.0 was asked for, but weather 1.1.0 needs geo >=0.4" in told


def test_a_dependency_is_not_downgraded_unasked(scene: Scene) -> None:
    scene.bot.has(scene.geo, "v0.5.0")
    told = refused(scene, "maps")
    assert "maps 1.0.0 needs geo <0.5" in told and "0.5.0 is installed" in told and "pkg -S geo@TAG" in told


def test_a_new_version_that_an_installed_plugin_does_not_take(scene: Scene) -> None:
    scene.bot.has(scene.maps, "v1.0.0")
    scene.bot.has(scene.geo, "v0.3.0")
    assert "maps 1.0.0 needs geo <0.5" in refused(scene, "geo@v0.5.0")
    plan = scene.bot.install("geo")
    assert steps(plan) == ["upgrade geo 0.3.0 → 0.4.0"]
    assert any("instead of 0.5.0" in text for text in plan.warnings)


def test_a_missing_dependency_without_a_registry(scene: Scene) -> None:
    scene.bot.server = None
    told = refused(scene, scene.weather.url)
    assert "weather 1.1.0 needs geo >=0.4, which is not installed" in told and "pkg -S GIT-URL" in told


def test_a_name_without_a_registry(scene: Scene) -> None:
    scene.bot.server = None
    with pytest.raises(RegistryError, match="no registry is configured"):
        scene.bot.install("geo")


def test_a_domain_that_is_taken_names_both_plugins(scene: Scene) -> None:
    rival = scene.new("rival")
    rival.release("v1.0.0", unique=["response"])
    told = refused(scene, rival.url)
    assert "heartflow" in told and "rival 1.0.0" in told and "'response'" in told and "pkg disable heartflow" in told
    scene.bot.disable("heartflow")
    assert steps(scene.bot.install(rival.url)) == ["install rival 1.0.0"]


def test_a_plugin_for_a_newer_lumia(scene: Scene) -> None:
    new = scene.new("new")
    new.release("v1.0.0", min_core_version="99.0")
    assert "new 1.0.0 needs Lumia 99.0 or newer" in refused(scene, new.url)


def test_a_dependency_for_a_newer_lumia_is_passed_over(scene: Scene) -> None:
    base, user = scene.new("base"), scene.new("user")
    base.release("v1.0.0")
    base.release("v1.1.0", min_core_version="99.0")
    user.release("v1.0.0", dependencies={"base": ">=1.0"})
    scene.server.lists(base)
    assert steps(scene.bot.install(user.url)) == ["install base 1.0.0", "install user 1.0.0"]


def test_a_circle(scene: Scene) -> None:
    one, other = scene.new("one"), scene.new("other")
    one.release("v1.0.0", dependencies={"other": ""})
    other.release("v1.0.0", dependencies={"one": ""})
    assert "one → other → one depend on each other in a circle" in refused(scene, one.url, other.url)


def test_the_names_of_lumias_own_plugins_are_taken(scene: Scene) -> None:
    fake = scene.new("heartflow")
    fake.release("v9.0.0")
    assert "heartflow comes with Lumia" in refused(scene, fake.url)
    assert "heartflow comes with Lumia" in refused(scene, "heartflow")


def test_a_folder_that_pkg_did_not_make_is_left_alone(scene: Scene) -> None:
    folder = scene.bot.root / "plugins" / "geo"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"name": "geo"}))
    (folder / "plugin.py").touch()
    assert "plugins/geo holds a plugin that `pkg` did not install" in refused(scene, "geo")
    assert "plugins/geo holds geo 0.0.0, which `pkg` did not install" in refused(scene, "weather")


def test_another_address_than_before_has_to_be_meant(scene: Scene) -> None:
    fork = scene.new("geo")
    fork.release("v0.6.0")
    scene.bot.has(scene.geo, "v0.3.0")
    scene.server.lists(fork)
    told = refused(scene, "geo")
    assert scene.geo.url in told and fork.url in told and "--force" in told
    assert steps(scene.bot.install("geo", force=True)) == ["upgrade geo 0.3.0 → 0.6.0"]
    plan = scene.bot.install(fork.url)
    assert any("changes its source" in text for text in plan.warnings)


def test_a_tag_that_was_moved_has_to_be_meant(scene: Scene) -> None:
    moving = scene.new("moving")
    moving.release("v1.0.0")
    scene.bot.has(moving, "v1.0.0", origin="git")
    moving.release("v1.0.0", files={"plugin.py": "EVIL = True\n"})
    assert "the tag v1.0.0 of moving was moved" in refused(scene, f"{moving.url}@v1.0.0")
    assert any("was moved" in text for text in scene.bot.upgrade().warnings)


def test_one_plugin_from_two_places_at_once(scene: Scene) -> None:
    assert "asked for twice" in refused(scene, "geo@v0.3.0", "geo@v0.4.0")


def test_a_name_that_looks_like_another_is_pointed_at(scene: Scene) -> None:
    fake = scene.new("heartf1ow")
    fake.release("v1.0.0")
    assert any("looks like heartflow" in text for text in scene.bot.install(fake.url).warnings)


def test_nothing_is_left_behind_by_a_plan_that_is_thrown_away(scene: Scene) -> None:
    from lumia.pkg import planning, requests

    sources = scene.bot.sources()
    planning.plan_install([requests.parse("weather")], sources)
    sources.discard()
    assert list((scene.bot.root / "data" / "pkg" / "staging").iterdir()) == []
