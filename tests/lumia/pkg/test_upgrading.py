"""Planning `pkg -U`: newer versions of what is installed, never older ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.errors import PlanError, SourceError
from tests.support.planned import Planned, planned, steps
from tests.support.plugin_repos import Repository, repository
from tests.support.registry import DATE, Answer, FakeRegistry, fake_registry


@pytest.fixture
def geo(tmp_path: Path) -> Repository:
    made = repository(tmp_path / "repositories", "geo")
    for tag in ("v0.3.0", "v0.4.0", "v1.0.0rc1"):
        made.release(tag)
    return made


@pytest.fixture
def server(geo: Repository) -> Iterator[FakeRegistry]:
    with fake_registry([geo]) as running:
        yield running


@pytest.fixture
def bot(tmp_path: Path, server: FakeRegistry) -> Planned:
    return planned(tmp_path / "bot", server)


@pytest.fixture
def user(tmp_path: Path) -> Repository:
    return repository(tmp_path / "repositories", "user")


@pytest.mark.parametrize("origin", ["registry", "git"])
def test_what_is_older_rises_to_the_latest_release(bot: Planned, geo: Repository, origin: str) -> None:
    bot.has(geo, "v0.3.0", origin=origin)  # type: ignore[arg-type]  # pytest gives a string
    assert steps(bot.upgrade()) == ["upgrade geo 0.3.0 → 0.4.0"]
    assert steps(bot.upgrade("geo")) == ["upgrade geo 0.3.0 → 0.4.0"]


def test_the_latest_and_what_is_newer_stay(bot: Planned, geo: Repository) -> None:
    bot.has(geo, "v0.4.0")
    assert steps(bot.upgrade()) == []
    bot.has(geo, "v1.0.0rc1")
    assert steps(bot.upgrade("geo")) == []


def test_who_asked_for_it_is_kept_in_mind(bot: Planned, geo: Repository, user: Repository) -> None:
    user.release("v1.0.0", dependencies={"geo": ">=0.3"})
    bot.has(user, "v1.0.0", origin="git")
    bot.has(geo, "v0.3.0", requested=False)
    after = bot.upgrade().actions[0].after
    assert after is not None and not after.requested


def test_a_version_that_a_user_does_not_take_is_passed_over(bot: Planned, geo: Repository, user: Repository) -> None:
    user.release("v1.0.0", dependencies={"geo": "<0.4"})
    bot.has(user, "v1.0.0", origin="git")
    bot.has(geo, "v0.3.0")
    plan = bot.upgrade()
    assert steps(plan) == []
    assert any("user 1.0.0 needs geo <0.4" in text for text in plan.warnings)


def test_user_and_used_rise_together(bot: Planned, geo: Repository, user: Repository) -> None:
    user.release("v1.0.0", dependencies={"geo": "<0.4"})
    bot.has(user, "v1.0.0", origin="git")
    bot.has(geo, "v0.3.0")
    user.release("v1.1.0", dependencies={"geo": ">=0.4"})
    assert steps(bot.upgrade("user")) == ["upgrade geo 0.3.0 → 0.4.0", "upgrade user 1.0.0 → 1.1.0"]
    assert steps(bot.upgrade()) == ["upgrade geo 0.3.0 → 0.4.0", "upgrade user 1.0.0 → 1.1.0"]


def test_a_folder_is_taken_again_when_it_changed(bot: Planned, user: Repository) -> None:
    user.release("v1.0.0")
    bot.has(user, "v1.0.0", origin="folder")
    assert steps(bot.upgrade()) == []
    (user.folder / "plugin.py").write_text("CHANGED = True\n")
    assert steps(bot.upgrade())[0].startswith("upgrade user 1.0.0 → 0.0.0+")


def test_a_registry_that_is_down_is_stood_in_for_by_the_repository(bot: Planned, geo: Repository) -> None:
    bot.has(geo, "v0.3.0")
    assert bot.server is not None
    bot.server.answers.clear()
    bot.server.answers["/revoked"] = Answer({}, 503)
    assert steps(bot.upgrade()) == ["upgrade geo 0.3.0 → 0.4.0"]
    assert any("are used instead" in text for text in bot.warnings)


def test_one_that_cannot_be_reached_hinders_the_others_only_when_it_is_named(
    bot: Planned, geo: Repository, user: Repository
) -> None:
    user.release("v1.0.0")
    bot.has(user, "v1.0.0", origin="git")
    bot.has(geo, "v0.3.0")
    user.folder.rename(user.folder.with_name("gone"))
    plan = bot.upgrade()
    assert steps(plan) == ["upgrade geo 0.3.0 → 0.4.0"]
    assert any("user is left as it is" in text for text in plan.warnings)
    assert plan.left == ("user",)
    with pytest.raises(SourceError):
        bot.upgrade("user")


def test_a_version_that_was_called_back_is_told(bot: Planned, geo: Repository) -> None:
    bot.has(geo, "v0.4.0")
    assert bot.server is not None
    version = {"name": "geo", "tag": "v0.4.0", "reason": "sends maps away", "date": DATE}
    bot.server.answers["/revoked"] = Answer({"keys": [], "versions": [version]})
    assert "geo 0.4.0 was revoked: sends maps away" in bot.upgrade().warnings


@pytest.mark.parametrize(
    "name, said",
    [
        ("gao", "gao is not installed; did you mean 'geo'?"),
        ("xyz", "xyz is not installed; `pkg -Q` lists what is"),
        ("heartflow", "heartflow comes with Lumia"),
    ],
)
def test_only_what_pkg_installed_can_be_upgraded(bot: Planned, geo: Repository, name: str, said: str) -> None:
    bot.has(geo, "v0.3.0")
    with pytest.raises(PlanError, match=said.replace("?", r"\?")):
        bot.upgrade(name)
