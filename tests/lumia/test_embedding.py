"""What a process serves beside its other work: counted, made once, over with the drain."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

import lumia
from lumia.embedding import Embedding
from lumia.errors import BackendUnavailableError
from lumia.runtime import Runtime
from lumia.testing import Bot
from tests.support.wait import until

done: list[str] = []


@lumia.event.consumer("sends")
def sends(content: lumia.Box[Any]) -> None:
    done.append(content.into())


@pytest.fixture(autouse=True)
def empty() -> None:
    done.clear()


class Consumer:
    """An embedded consumer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def add(self, queue: str) -> None:
        self.told.append(f"add {queue}")

    def cancel(self, queue: str) -> None:
        self.told.append(f"cancel {queue}")

    def drain(self, seconds: float) -> bool:
        self.told.append("drain")
        return True

    def stop(self) -> None:
        self.told.append("stop")


class Slow:
    """A transport whose consumer is made when the test says so."""

    def __init__(self) -> None:
        self.made: list[Consumer] = []
        self.ready = threading.Event()
        self.fails = False

    def embed(self, bot: Runtime) -> Consumer:
        self.ready.wait(10)
        if self.fails:
            raise BackendUnavailableError("this bot is not running")
        self.made.append(Consumer())
        return self.made[-1]


@pytest.fixture
def transport() -> Slow:
    found = Slow()
    found.ready.set()
    return found


@pytest.fixture
def embedding(transport: Slow) -> Embedding:
    return Embedding(cast("Runtime", SimpleNamespace(transport=transport)))


def test_a_queue_is_served_until_the_last_one_has_left_it(transport: Slow, embedding: Embedding) -> None:
    assert not transport.made
    embedding.add("a")
    embedding.add("a")
    embedding.leave("a")
    embedding.add("b")
    assert embedding.queues == ["a", "b"]
    embedding.leave("a")
    embedding.stop()
    (consumer,) = transport.made
    assert [one for one in consumer.told if one != "add a"] == ["add b", "cancel a", "stop"]


def test_leaving_never_waits_for_the_consumer_that_is_being_made(transport: Slow, embedding: Embedding) -> None:
    transport.ready.clear()
    adding = threading.Thread(target=embedding.add, args=("a",))
    adding.start()
    until(lambda: embedding.queues == ["a"])
    embedding.leave("a")
    transport.ready.set()
    adding.join(10)
    assert transport.made[0].told == []


def test_what_can_not_be_made_is_not_served_and_is_made_the_next_time(transport: Slow, embedding: Embedding) -> None:
    transport.fails = True
    with pytest.raises(BackendUnavailableError):
        embedding.add("a")
    assert embedding.queues == []
    transport.fails = False
    embedding.add("a")
    assert transport.made[0].told == ["add a"]


def test_after_a_drain_nothing_is_served_until_it_is_resumed(transport: Slow, embedding: Embedding) -> None:
    embedding.add("a")
    assert embedding.drain(1.0)
    embedding.leave("a")
    embedding.add("b")
    embedding.leave("b")
    embedding.resume()
    embedding.add("c")
    assert transport.made[0].told == ["add a", "drain", "add c"]


def test_who_is_cancelled_on_the_way_in_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async def serves() -> None:
            async with lumia.adapters.serving("test", "main"):
                raise AssertionError

        gate.clear()
        task = asyncio.create_task(serves())
        while not bot.runtime.embedding.queues:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        gate.set()
        while bot.runtime.embedding.queues:
            await asyncio.sleep(0)

    gate = threading.Event()
    with Bot() as bot:
        embed = bot.transport.embed

        def slowly(runtime: Runtime) -> Any:
            gate.wait(10)
            return embed(runtime)

        monkeypatch.setattr(bot.transport, "embed", slowly)
        asyncio.run(run())


def test_in_memory_a_queue_that_was_never_served_is_executed_like_any_other_and_then_waits() -> None:
    name = lumia.adapters.queue("test", "main")
    with Bot(sends) as bot:
        lumia.event.start("sends", lumia.Box.any("early"), queue=name)
        bot.transport.drain(bot.runtime)
        assert done == ["early"]
        bot.runtime.embedding.add(name)
        bot.runtime.embedding.leave(name)
        lumia.event.start("sends", lumia.Box.any("late"), queue=name)
        bot.transport.drain(bot.runtime)
        assert done == ["early"]
        (queue,) = lumia.adapters.waiting()
        assert (queue.adapter, queue.account, queue.waiting, queue.gateways) == ("test", "main", 1, ())
        bot.runtime.embedding.add(name)
        bot.transport.drain(bot.runtime)
        assert done == ["early", "late"]
