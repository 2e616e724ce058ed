"""How much of the broker's memory a message takes: waiting, in a lane or without, and when it has ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from bench import bot as bots
from bench.inprocess import drain
from bench.session import settled_memory
from tests.support.servers import Server

WARM = 100


@dataclass(frozen=True)
class Memory:
    """Bytes of used_memory per message.

    in_lanes, without_lane: accepted and waiting. finished: worked off, with its journal entries. archived: the same
    with the journal stream emptied, as it is once its entries are archived.
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
    without, _, _ = _figures(redis, root, server, messages, lanes=0)
    figures = _figures(redis, root, server, messages, lanes=bots.LANES)
    redis.close()
    return Memory(figures[0], without, *figures[1:])


def _figures(redis: Any, root: Path, server: Server, messages: int, lanes: int) -> tuple[float, float, float]:
    redis.flushall()
    with bots.opened(root, server.url) as bot:
        bots.accept(WARM, lanes=lanes)
        drain(bot, redis)
        redis.xtrim("lumia:journal", maxlen=0, approximate=False)
        before = _used(redis)
        bots.accept(messages, lanes=lanes)
        waiting = _used(redis) - before
        drain(bot, redis)
        finished = _used(redis) - before
        redis.xtrim("lumia:journal", maxlen=0, approximate=False)
        archived = _used(redis) - before
    return waiting / messages, finished / messages, archived / messages


def _used(redis: Any) -> int:
    return settled_memory(redis, alone=False)
