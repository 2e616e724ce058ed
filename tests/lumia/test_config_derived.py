"""What is made of settings is kept until they change."""

from __future__ import annotations

import pytest

import lumia
from lumia.testing import Bot

made: list[str] = []


@lumia.config.derived("lumia")
def shouted() -> str:
    made.append(str(lumia.config.get("lumia").bot.name))
    return made[-1].upper()


@lumia.pipe.on("ask")
def ask(content: lumia.Box[str]) -> None:
    lumia.store.set("seen", [shouted(), shouted()])


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


def test_it_is_made_once_and_again_after_a_change() -> None:
    with Bot(ask):
        before = lumia.config.get("lumia").bot.name
        assert [shouted(), shouted()] == [before.upper()] * 2 and made == [before]
        lumia.config.get("lumia").bot.name = "Ada"
        assert [shouted(), shouted()] == ["ADA", "ADA"] and made == [before, "Ada"]


def test_each_bot_has_its_own() -> None:
    with Bot(ask, config={"lumia": {"bot.name": "Ada"}}):
        assert shouted() == "ADA"
    with Bot(ask, config={"lumia": {"bot.name": "Bob"}}):
        assert shouted() == "BOB"


def test_in_a_step_it_is_made_anew_so_that_its_reads_are_recorded() -> None:
    with Bot(ask) as bot:
        assert bot.start("ask", "x").outcome == "done"
        assert len(made) == 2
