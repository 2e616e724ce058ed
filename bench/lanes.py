"""What a message costs as lanes grow: idle ones that had a run, and active ones that the messages are spread over."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis

from bench import bot as bots
from bench.inprocess import cost
from bench.stats import Spread
from lumia.box import Box
from lumia.ports import RunRequest
from lumia.runtime import Runtime
from lumia.system import new_id
from tests.support.servers import Server

SIZES = (1, 100, 10_000, 100_000)
AT_ONCE = 200
KINDS_OF_KEYS = ("lanes", "lane:", "bursts", "ia:", "iq:")


@dataclass
class Size:
    """Figures for one number of lanes, in µs of CPU time per message. keys: what Redis holds of the idle lanes."""

    lanes: int
    keys: int = 0
    idle_accept: list[float] = field(default_factory=list)
    idle_work: list[float] = field(default_factory=list)
    active_accept: list[float] = field(default_factory=list)
    active_work: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form: medians with spreads."""
        names = ("idle_accept", "idle_work", "active_accept", "active_work")
        return {
            "lanes": self.lanes,
            "keys": self.keys,
            **{name: vars(Spread.of(getattr(self, name))) for name in names},
        }


def make_idle(bot: Runtime, redis: Any, lanes: int) -> None:
    """Give each lane a run and end it, as a group that has said something once and nothing since."""
    transport = bots.transport_of(bot)
    plan, box = bot.routes.plan("pipe", "bench"), Box.any({"text": bots.TEXT}).dump(bot.secret)
    for first in range(0, lanes, AT_ONCE):
        ids = [new_id() for _ in range(first, min(first + AT_ONCE, lanes))]
        transport.start([
            RunRequest(id_, "pipe", "bench", plan, box, key=f"idle {first + n}", root_id=id_)
            for n, id_ in enumerate(ids)
        ])  # fmt: skip
        for id_ in ids:
            transport.cancel(id_, "the lane is to be idle")
        redis.delete(bots.QUEUE)  # the ended runs' messages, which a worker would drop


def keys_of_lanes(redis: Any) -> int:
    """Return how many keys Redis holds for lanes."""
    return sum(1 for kind in KINDS_OF_KEYS for _ in redis.scan_iter(f"lumia:{kind}*", count=5000))


def _accept(lanes: int) -> Callable[[int], None]:
    return lambda count: bots.accept(count, lanes=lanes)


def measure(server: Server, folder: Path, sizes: tuple[int, ...], rounds: int, messages: int) -> list[Size]:
    """Measure every size in each round, so that a disturbance hits all of them."""
    found = [Size(lanes) for lanes in sizes]
    root = bots.make_root(folder / "lanes")
    with ExitStack() as stack:
        opened = []
        for number, size in enumerate(found):
            url = server.url.removesuffix("/0") + f"/{number}"
            redis: Any = Redis.from_url(url)
            redis.flushdb()
            stack.callback(redis.close)
            bot = stack.enter_context(bots.opened(root, url))
            make_idle(bot, redis, size.lanes)
            size.keys = keys_of_lanes(redis)
            opened.append((size, bot, redis))
            print(f"lanes: {size.lanes} are idle", file=sys.stderr)
        for round_ in range(rounds + 1):
            for size, bot, redis in opened:
                idle = cost(bot, redis, messages, _accept(bots.LANES))
                active = cost(bot, redis, messages, _accept(size.lanes))
                if round_:
                    size.idle_accept.append(idle.accept)
                    size.idle_work.append(idle.work)
                    size.active_accept.append(active.accept)
                    size.active_work.append(active.work)
            print(f"lanes, round {round_} of {rounds}", file=sys.stderr)
    return found
