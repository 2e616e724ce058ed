"""Replays on several processes, in a process that has no other threads: `python -m tests.lumia.replay.forked NAME`."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import lumia
from lumia.errors import ReplayError
from lumia.replay.parallel import replay_all
from tests.lumia.replay import scripted
from tests.lumia.replay.scripted import trees

PARENT = os.getpid()


@lumia.pipe.on("where")
def where(box: lumia.Box[Any]) -> None:
    lumia.annotate(process=os.getpid())


@lumia.pipe.on("deadly")
def deadly(box: lumia.Box[Any]) -> None:
    if os.getpid() != PARENT:
        os._exit(1)


def replayed(name: str, jobs: int, count: int) -> dict[str, Any]:
    """Record runs of a handler, replay them on `jobs` processes, and return what came of it."""
    with scripted.bot(where, deadly) as bot:
        for number in range(count):
            bot.start(name, number)
        found = trees(bot)
        try:
            done = list(replay_all(bot.runtime, bot.table, found, jobs))
        except ReplayError as error:
            return {"error": str(error)}
    processes = {difference.replayed for one in done for difference in one.differences}
    return {
        "parent": PARENT, "processes": sorted(processes), "recorded": sorted(tree.root_id for tree in found),
        "replayed": sorted(one.root_id for one in done),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(replayed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
