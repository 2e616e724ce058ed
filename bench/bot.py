"""The bot that Lumia's own figures are measured with: a bot root with the four stages, opened in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lumia.box import Box
from lumia.bus import pipe
from lumia.runtime import Runtime, open_bot
from tasks.transport import RedisTransport
from tests.support.workers import bot_root, write_plugin

LANES = 50
TEXT = "x" * 189
"""With its key and quotes a payload of 200 bytes of JSON."""
DONE = b"lumia:s:noop//done"
QUEUE = "default:3"


def make_root(folder: Path, settings: str = "", code: str = "", timeout: float = 30.0) -> Path:
    """Make a bot root whose only plugin has the four stages, and `code` after them."""
    root = bot_root(folder, settings=settings)
    file = root / "config" / "lumia.toml"
    file.write_text(file.read_text().replace("step_timeout = 5.0", f"step_timeout = {timeout}"))
    write_plugin(root, "noop", (Path(__file__).parent / "noop_plugin.py").read_text() + code)
    return root


@contextmanager
def opened(root: Path, url: str, *, load: str = "all") -> Iterator[Runtime]:
    """Open the bot in this process and publish its handlers, so that messages can be accepted without a worker."""
    os.environ["LUMIA_REDIS_URL"] = url
    bot = open_bot(root, load=load)
    try:
        if bot.plugins is not None:
            bot.use_routes(bot.transport.publish(bot.install(bot.plugins)))
        with bot.activated():
            yield bot
    finally:
        bot.close()


def accept(count: int, *, id: str = "bench", lanes: int = LANES) -> None:
    """Start `count` messages over as many lanes; 0 for messages without one."""
    box = Box.any({"text": TEXT})
    for number in range(count):
        pipe.start(id, box, key=f"group {number % lanes}" if lanes else None)


def done(redis: Any) -> int:
    """Return how many messages have committed their last stage."""
    return int(redis.get(DONE) or 0)


def taken(redis: Any, before: int = 0) -> bool:
    """Tell whether a worker has begun with messages of which `before` were done before."""
    return bool(redis.zcard("lumia:claims")) or done(redis) > before


def transport_of(bot: Runtime) -> RedisTransport:
    """Return the bot's transport."""
    found = bot.transport
    assert isinstance(found, RedisTransport)
    return found
