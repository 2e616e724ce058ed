"""How much of the broker's memory a message takes: waiting, in a lane or without, and when it has ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from bench import bot as bots
from bench.inprocess import drain
from bench.processes import wait_until
from bench.session import LIMIT_SECONDS, settled_memory
from lumia.runtime import Runtime
from tasks.archive.archiver import Archiver
from tasks.archive.place import Place
from tasks.archive.settings import ArchiveSettings
from tasks.archive.stream import Stream
from tests.support.servers import Server, postgres

WARM = 100


@dataclass(frozen=True)
class Memory:
    """Bytes of used_memory per message.

    in_lanes, without_lane: accepted and waiting. finished: worked off, with its journal entries. archived: the same
    once the archiver has taken the entries to Postgres, reduced the runs and trimmed the stream.
    """

    in_lanes: float
    without_lane: float
    finished: float
    archived: float

    def as_dict(self) -> dict[str, float]:
        """Return the JSON form."""
        return asdict(self)


def measure(server: Server, folder: Path, messages: int) -> Memory:
    """Measure on an emptied broker."""
    redis: Any = Redis.from_url(server.url)
    root = bots.make_root(folder / "memory", "batch = 16\nbatch_ms = 5000")
    with postgres(folder / "archive") as database:
        place = Place(folder / "journal", database.url)
        without, _, _ = _figures(redis, root, server, place, messages, lanes=0)
        figures = _figures(redis, root, server, place, messages, lanes=bots.LANES)
    redis.close()
    return Memory(figures[0], without, *figures[1:])


def _figures(
    redis: Any, root: Path, server: Server, place: Place, messages: int, lanes: int
) -> tuple[float, float, float]:
    redis.flushall()
    with bots.opened(root, server.url) as bot:
        bots.accept(WARM, lanes=lanes)
        drain(bot, redis)
        _archive(bot, place)
        before = _used(redis)
        bots.accept(messages, lanes=lanes)
        waiting = _used(redis) - before
        drain(bot, redis)
        finished = _used(redis) - before
        _archive(bot, place)
        archived = _used(redis) - before
    return waiting / messages, finished / messages, archived / messages


def _archive(bot: Runtime, place: Place) -> None:
    """Do at once what a worker's archiver does with everything there is within five minutes."""
    archiver = Archiver(Stream(bots.transport_of(bot)), place, ArchiveSettings(hot=0.0, compact_after=0.0))
    try:
        wait_until(lambda: archiver.turn() > 0, LIMIT_SECONDS, "the archiver has nothing left to do")
    finally:
        archiver.close()


def _used(redis: Any) -> int:
    return settled_memory(redis, alone=False)
