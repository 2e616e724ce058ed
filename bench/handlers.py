"""What a message costs as the number of registered handlers grows.

A bot has the four stages and thousands of others: exact pipelines, event consumers, and globs with prefix and suffix.
Looking up a plan that was never asked for is timed alone; accepting and working off messages, of which every second one
has an id of its own that a glob matches, shows what it means for a message.
"""

from __future__ import annotations

import os
import sys
import time
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
from lumia.bus import pipe
from lumia.routes import RouteIndex
from lumia.runtime import Runtime
from tests.support.servers import Server

SIZES = (10, 100, 1000, 10_000)
LOOKUPS = 1000
GLOBBED = '''

@lumia.pipe.on_re("bench.*.end", priv=10)
def globbed(src: str, content: lumia.Box[Any]) -> None:
    """Count."""
    lumia.store.incr("done")
'''
KINDS = (
    '@lumia.pipe.on("other.{n}")\ndef f{n}(content: lumia.Box[Any]) -> None:\n    lumia.utils.next()\n',
    '@lumia.event.consumer("happened.{n}")\ndef f{n}(content: lumia.Box[Any]) -> None:\n    pass\n',
    '@lumia.pipe.on_re("topic.{n}.*")\ndef f{n}(src: str, content: lumia.Box[Any]) -> None:\n    lumia.utils.next()\n',
    '@lumia.event.consumer_re("*.of.{n}")\ndef f{n}(src: str, content: lumia.Box[Any]) -> None:\n    pass\n',
)


@dataclass
class Size:
    """Figures for one number of handlers: µs of CPU time per lookup or message; load and build of the index in ms."""

    handlers: int
    load: float = 0.0
    build: float = 0.0
    lookup: list[float] = field(default_factory=list)
    accept: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form: medians with spreads."""
        found = {name: vars(Spread.of(getattr(self, name))) for name in ("lookup", "accept", "work")}
        return {"handlers": self.handlers, "load_ms": self.load, "build_ms": self.build, **found}


def code(handlers: int) -> str:
    """Return a plugin's code that brings the number of handlers to `handlers`."""
    return GLOBBED + "\n\n".join(KINDS[n % len(KINDS)].format(n=n) for n in range(handlers - 5))


def lookup(index: RouteIndex, handlers: int, round_: int) -> float:
    """Return µs of CPU time to find the handlers of an id: exact, globbed and unknown ones in turn."""
    shapes = ("other.{0}", "bench.{1}.end", "topic.{2}.x", "nobody.{1}")
    names = [4 * n for n in range(max(1, (handlers - 5) // 4))]
    exact = [names[n % len(names)] for n in range(LOOKUPS)]
    ids = [shapes[n % 4].format(exact[n], f"{round_}.{n}", exact[n] + 2) for n in range(LOOKUPS)]
    index.matching("pipe", "bench")
    began = time.thread_time()
    for id_ in ids:
        index.matching("pipe", id_)
    return (time.thread_time() - began) / LOOKUPS * 1e6


def _accept(prefix: str) -> Callable[[int], None]:
    box = Box.any({"text": bots.TEXT})

    def accept(count: int) -> None:
        for number in range(count):
            id_ = f"bench.{prefix}{number}.end" if number % 2 else "bench"
            pipe.start(id_, box, key=f"group {number % bots.LANES}")

    return accept


def measure(server: Server, folder: Path, sizes: tuple[int, ...], rounds: int, messages: int) -> list[Size]:
    """Measure every size in each round, so that a disturbance hits all of them."""
    found = [Size(handlers) for handlers in sizes]
    with ExitStack() as stack:
        bots_: list[tuple[Size, Runtime, Any]] = []
        for number, size in enumerate(found):
            bots_.append((size, *_opened(stack, server, folder, size, number)))
        for round_ in range(rounds + 1):
            for size, bot, redis in bots_:
                spent = cost(bot, redis, messages, _accept(f"{round_}."))
                if round_ == 0:
                    continue  # first use: imports, connections, plans
                size.lookup.append(lookup(bot.routes, size.handlers, round_))
                size.accept.append(spent.accept)
                size.work.append(spent.work)
            print(f"handlers, round {round_} of {rounds}", file=sys.stderr)
    return found


def _opened(stack: ExitStack, server: Server, folder: Path, size: Size, number: int) -> tuple[Runtime, Any]:
    url = server.url.removesuffix("/0") + f"/{number}"
    redis: Any = Redis.from_url(url)
    redis.flushdb()
    stack.callback(redis.close)
    root = bots.make_root(folder / f"handlers-{size.handlers}", code=code(size.handlers))
    os.environ["LUMIA_REDIS_URL"] = url
    began = time.perf_counter()
    bot = stack.enter_context(bots.opened(root, url))
    size.load = (time.perf_counter() - began) * 1000
    registered = len(bot.handlers)
    assert registered == size.handlers, f"{registered} handlers are registered instead of {size.handlers}"
    fresh = RouteIndex(bot.routes.routes)
    began = time.thread_time()
    fresh.plan("pipe", "bench")
    size.build = (time.thread_time() - began) * 1000
    return bot, redis
