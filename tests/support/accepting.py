"""A bot in this process whose inbox is filled and emptied, and whose steps are executed, when a test says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lumia
from lumia.bus import Asked
from lumia.journal import JournalEntry
from lumia.runtime import Runtime, open_bot
from tasks.backend import worker_name
from tasks.inbox import InboxThread
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.workers import bot_root, write_plugin

CODE = """
import lumia

@lumia.pipe.on("msg")
def hear(content):
    lumia.store.append("heard", content.into()["n"], scope=content.meta["chat"], keep=10000)

@lumia.event.consumer("msg.raw")
def note(content):
    lumia.store.append("raw", content.into())
"""


def rooted(folder: Path) -> Path:
    """Make a bot root with the plugin that hears."""
    found = bot_root(folder)
    write_plugin(found, "ear", CODE)
    return found


class Bot:
    """A bot in this process whose steps are executed when a test says so."""

    def __init__(self, runtime: Runtime, transport: RedisTransport) -> None:
        self.runtime = runtime
        self.transport: Any = transport
        self.redis: Any = transport.redis
        self.inbox = InboxThread(runtime, transport)

    def publish(self) -> None:
        """Publish the route table."""
        assert self.runtime.plugins is not None
        self.runtime.use_routes(self.transport.publish(self.runtime.install(self.runtime.plugins)))

    def asked(self, n: int, chat: str = "a", **options: Any) -> Asked:
        content = lumia.Box.any({"n": n}, meta={"chat": chat})
        return lumia.pipe.ask("msg", content, key=f"web:group-{chat}", dedup=f"{chat} {n}", **options)

    def keep(self, *asked: Asked) -> list[str]:
        return list(self.transport.inbox.keep([one.kept(self.runtime) for one in asked])[1])

    def start(self, n: int, chat: str = "a", **options: Any) -> str:
        content = lumia.Box.any({"n": n}, meta={"chat": chat})
        return lumia.pipe.start("msg", content, key=f"web:group-{chat}", dedup=f"{chat} {n}", **options)

    def take(self) -> int:
        """Start what the inbox holds, one batch of it; returns how many were there."""
        waiting = self.inbox._inbox.oldest()
        self.inbox._start(waiting)
        return len(waiting)

    def work(self, queue: str = "default:3", most: int = 100_000) -> None:
        """Execute the messages of a queue, at most so many."""
        while most > 0 and (message := self.redis.rpop(queue)) is not None:
            most -= 1
            run, step, seq = json.loads(json.loads(message)["body"])[0]
            claim = self.transport.claim(run, step, seq)
            if claim is not None:
                self.runtime.executor.process(claim)

    def heard(self, chat: str = "a") -> list[int]:
        return lumia.store.of("ear").items("heard", scope=chat)

    def journal(self, run_id: str) -> list[JournalEntry]:
        return [entry for entry in lumia.runs.tail("0", timeout=0, limit=1000) if entry.run_id == run_id]


@contextmanager
def fresh(root: Path, server: servers.Server) -> Iterator[Bot]:
    """Open a bot on an emptied broker."""
    redis = connect(server.url)
    redis.flushdb()
    transport = RedisTransport(redis, worker=worker_name(), url=server.url)
    runtime = open_bot(root, load="all", transport=transport)
    try:
        bot = Bot(runtime, transport)
        bot.publish()
        with runtime.activated():
            yield bot
    finally:
        runtime.close()
