"""Today's code as a replay loads it: services are there, and starting plugins reaches nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lumia
from lumia import finder
from lumia.paths import base
from lumia.replay import Replayer
from lumia.replay.code import todays_code
from lumia.testing import Bot, ManualClock
from tests.lumia.replay import scripted
from tests.support.workers import bot_root, write_plugin

PROVIDER = """
import lumia


def on_load():
    lumia.store.of("memory").set("started", True)
    lumia.services.provide("memory", Memory())


class Memory:
    def recall(self, text):
        return lumia.recorded("memory", f"recall {text}", self._ask, text)

    def _ask(self, text):
        raise AssertionError("a replay asked")
"""
USER = """
import socket

import lumia


def on_load():
    socket.create_connection(("127.0.0.1", 9))


@lumia.pipe.on("said")
def said(content: lumia.Box) -> None:
    found = lumia.services.get("memory").recall(content.into())
    lumia.store.set("found", found)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = bot_root(tmp_path / "bot")
    write_plugin(root, "memory", PROVIDER, provides=["memory"])
    write_plugin(root, "user", USER)
    return root


@pytest.fixture(autouse=True)
def _plugins_are_forgotten(root: Path) -> object:
    yield
    finder.uninstall(base(), root)
    for name in [name for name in sys.modules if name.startswith("lumia_plugins.") and name.count(".") == 1]:
        finder.FINDER.forget(name)


def test_a_service_is_there_and_its_answer_comes_from_the_record(root: Path) -> None:
    class Memory:
        def recall(self, text: str) -> list[str]:
            found: list[str] = lumia.recorded("memory", f"recall {text}", lambda: [text, "then"])
            return found

    @lumia.pipe.on("said")
    def said(content: lumia.Box[str]) -> None:
        lumia.store.set("found", Memory().recall(content.into()))

    with Bot(said, name="user", clock=ManualClock()) as then:
        then.start("said", "birthday")
        found = scripted.trees(then)
        secret = then.runtime.secret
    with todays_code(root) as (bot, table):
        bot.secret = secret
        assert bot.plugins is not None
        assert bot.plugins.failures == []
        (done,) = Replayer(bot, table).replay_all(found)
    assert (done.differences, done.skipped) == ([], "")


def test_a_plugin_that_can_not_start_alone_keeps_its_handlers(root: Path) -> None:
    with todays_code(root, on_load=True) as (bot, table):
        assert bot.plugins is not None
        assert "reaches nothing outside" in str(bot.plugins.failures[0])
        assert [route.handler for route in table.routes] == ["user.said"]
        assert "user.said" in bot.handlers
