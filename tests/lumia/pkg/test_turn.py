"""Whose the turn to change a bot's plugins is, where machines have the same name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lumia.deployment import Holder, lock_place, place_of
from lumia.inmemory import InMemoryTransport
from lumia.opening import open_bot
from lumia.pkg import turn
from lumia.pkg.layout import Layout
from lumia.pkg.mutex import HeldError
from lumia.runtime import Runtime
from tests.support.workers import bot_root


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    opened = open_bot(bot_root(tmp_path / "bot"), transport=InMemoryTransport())
    monkeypatch.setattr(turn, "reached", lambda root: nullcontext((opened.transport, opened.config)))
    yield opened
    opened.close()


def test_another_container_with_the_same_name_and_path_does_not_take_the_turn(bot: Runtime) -> None:
    lock = Layout(bot.root).data / turn.FILE
    with turn.take(bot.root) as token:
        lock.rename(lock.with_name("of another container"))  # the same path there is another file
        with pytest.raises(HeldError, match="another operation is going on"), turn.take(bot.root, timeout=0):
            pytest.fail("two have the turn")
        with turn.attempt(bot.root, 0) as none:
            assert none == 0
        assert bot.transport.deployments().keep_turn(token, 5.0)
    with turn.take(bot.root, timeout=0) as later:
        assert later > token


def test_what_a_dead_holder_of_the_same_lock_has_left_is_taken_at_once(bot: Runtime) -> None:
    with turn.take(bot.root):
        pass
    with (Layout(bot.root).data / turn.FILE).open() as lock:
        dead = Holder("dead", lock_place(lock.fileno()), 1, "pkg")
    token = bot.transport.deployments().take_turn(dead, 3600.0)
    with turn.take(bot.root, timeout=0) as later:
        assert later > token


def test_a_place_is_a_folder_not_its_path(tmp_path: Path) -> None:
    root = tmp_path / "app"
    root.mkdir()
    first = place_of(root)
    assert place_of(root) == first and place_of(tmp_path / "gone").endswith("/gone")
    root.rename(tmp_path / "other")
    root.mkdir()
    second = place_of(root)
    assert first.partition("#")[0] == second.partition("#")[0] and first != second
