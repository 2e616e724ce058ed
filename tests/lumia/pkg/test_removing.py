"""Planning `pkg -R`, `pkg enable` and `pkg disable`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumia.errors import PlanError
from lumia.pkg import planning
from tests.support.planned import Planned, planned, steps
from tests.support.plugin_repos import Repository, repository


@pytest.fixture
def bot(tmp_path: Path) -> Planned:
    """A bot with weather, which needs geo, which came along."""
    made = planned(tmp_path / "bot")
    for name, needs in (("geo", {}), ("weather", {"geo": ">=0.3"})):
        one: Repository = repository(tmp_path / "repositories", name)
        one.release("v1.0.0", dependencies=needs, python_dependencies=[f"{name}-lib>=1"])
        made.has(one, "v1.0.0", requested=name == "weather")
    return made


def test_users_go_before_what_they_use(bot: Planned) -> None:
    plan = bot.remove("geo", "weather")
    assert steps(plan) == ["remove weather 1.0.0", "remove geo 1.0.0"]
    assert (plan.purge, plan.python) == (frozenset(), {})


def test_purged_ones_are_named(bot: Planned) -> None:
    assert bot.remove("weather", purge=True).purge == {"weather"}


def test_what_is_no_longer_needed_is_told_and_its_packages_stay(bot: Planned) -> None:
    plan = bot.remove("weather")
    assert steps(plan) == ["remove weather 1.0.0"]
    assert any("pkg -R geo" in text for text in plan.warnings)
    assert plan.python == {"geo": ("geo-lib>=1",)}


def test_what_others_need_stays_unless_forced(bot: Planned) -> None:
    with pytest.raises(PlanError, match=r"weather needs geo: remove weather, too, or use --force"):
        bot.remove("geo")
    plan = bot.remove("geo", force=True)
    assert steps(plan) == ["remove geo 1.0.0"]
    assert any("weather needs geo" in text for text in plan.warnings)


def test_lumias_own_plugins_are_not_removed(bot: Planned) -> None:
    with pytest.raises(PlanError, match="comes with Lumia and changes with it; `pkg disable heartflow`"):
        bot.remove("heartflow")


def test_a_plugin_and_one_of_lumias_own_can_be_turned_off_and_on(bot: Planned) -> None:
    plan = planning.plan_switch(["weather", "heartflow"], bot.root, enabled=False)
    assert {one.name: (one.kind, one.after and one.after.enabled) for one in plan.actions} == {
        "weather": ("disable", False),
        "heartflow": ("disable", None),
    }
    assert plan.python == {"geo": ("geo-lib>=1",)}
    bot.disable("weather", "heartflow")
    assert steps(planning.plan_switch(["weather"], bot.root, enabled=True)) == ["enable weather 1.0.0"]
    assert planning.plan_switch(["weather"], bot.root, enabled=False).warnings == ("weather is disabled already",)


def test_what_others_need_stays_on(bot: Planned) -> None:
    with pytest.raises(PlanError, match="weather needs geo: disable weather, too"):
        planning.plan_switch(["geo"], bot.root, enabled=False)


def test_what_would_not_load_is_not_turned_on(bot: Planned) -> None:
    bot.disable("geo", "weather")
    with pytest.raises(PlanError, match=r"needs geo, which is disabled; enable it with `pkg enable geo`"):
        planning.plan_switch(["weather"], bot.root, enabled=True)


def test_an_unknown_name_is_met_with_the_closest(bot: Planned) -> None:
    with pytest.raises(PlanError, match="no plugin is named 'wether'; did you mean 'weather'"):
        planning.plan_switch(["wether"], bot.root, enabled=True)
