"""Many trees on several processes."""

from __future__ import annotations

import os
from typing import Any

import pytest

import lumia
from lumia.errors import ReplayError
from lumia.replay.parallel import replay_all
from tests.lumia.replay import scripted
from tests.lumia.replay.scripted import trees


def test_every_tree_is_replayed_once_by_processes_of_their_own() -> None:
    @lumia.pipe.on("where")
    def where(box: lumia.Box[Any]) -> None:
        lumia.annotate(process=os.getpid())

    with scripted.bot(where) as bot:
        for number in range(9):
            bot.start("where", number)
        found = trees(bot)
        done = list(replay_all(bot.runtime, bot.table, found, jobs=3))

    assert sorted(one.root_id for one in done) == sorted(tree.root_id for tree in found)
    processes = {difference.replayed for one in done for difference in one.differences}
    assert len(processes) == 3
    assert os.getpid() not in processes


def test_a_handler_that_kills_its_process_is_an_error_that_names_the_way_out() -> None:
    parent = os.getpid()

    @lumia.pipe.on("deadly")
    def deadly(box: lumia.Box[Any]) -> None:
        if os.getpid() != parent:
            os._exit(1)

    with scripted.bot(deadly) as bot:
        for number in range(2):
            bot.start("deadly", number)
        with pytest.raises(ReplayError, match="--jobs 1"):
            list(replay_all(bot.runtime, bot.table, trees(bot), jobs=2))
