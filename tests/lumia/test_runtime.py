"""Which bot is the active one, what it plans with, and how it ends."""

from __future__ import annotations

import contextvars
import threading
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia import runtime
from lumia.errors import BackendUnavailableError, NotRunningError
from lumia.inmemory import InMemoryTransport
from lumia.routes import RouteTable
from lumia.runtime import Runtime
from lumia.testing import Bot

Boxed = lumia.Box[Any]


def bare(**options: Any) -> Runtime:
    return Runtime(Path(), Path(), InMemoryTransport(), b"secret", **options)


@lumia.pipe.on("msg", priv=3, queue="slow", retry=5, timeout=7.5)
def handler(content: Boxed) -> None:
    """Do nothing."""


def test_without_a_bot_the_way_to_one_is_told() -> None:
    assert runtime.active() is None
    with pytest.raises(NotRunningError, match=r"lumia\.runtime\.open_bot\(\), a test uses lumia\.testing\.Bot"):
        runtime.current()


def test_the_bot_of_a_context_comes_before_that_of_the_process() -> None:
    first, second, third = bare(), bare().activate(), bare().activate()
    assert runtime.current() is third
    with first.activated():
        assert runtime.current() is first
        with second.activated():
            assert runtime.current() is second
        assert runtime.current() is first
        got: list[Any] = []
        thread = threading.Thread(target=contextvars.Context().run, args=(lambda: got.append(runtime.current()),))
        thread.start()
        thread.join()
        assert got == [third]
    third.close()
    assert runtime.current() is second
    second.close()
    second.close()
    assert runtime.active() is None


def test_before_a_worker_has_loaded_nothing_can_be_accepted() -> None:
    bot = bare()
    with bot.activated(), pytest.raises(BackendUnavailableError, match="no worker has published"):
        lumia.pipe.start("msg", lumia.Box.any(1))


def test_the_published_table_is_read_when_it_is_first_needed() -> None:
    bot = bare()
    published = bot.transport.publish(RouteTable(0, (), (), {}))
    assert (bot.table.number, bot.table.queues) == (published.number, ("default",))
    assert bot.routes is bot.table.index


def test_what_a_mark_says_is_in_the_route() -> None:
    with Bot(handler) as bot:
        (route,) = bot.table.routes
        assert (route.kind, route.id, route.handler, route.plugin) == ("pipe", "msg", "test.handler", "test")
        assert (route.priv, route.queue, route.timeout, route.retry, route.hard) == (
            3, "slow", 7.5, lumia.Retry(attempts=5), False,
        )  # fmt: skip
        assert route.source.startswith("test_runtime.py:")
        assert bot.runtime.handler(bot.runtime.routes.plan("pipe", "msg").steps[0]) is not None


def test_one_plugin_with_an_odd_annotation_does_not_keep_the_others_from_loading() -> None:
    def odd(content: Any) -> None:
        lumia.store.set("odd", True)

    odd.__annotations__ = {"content": "lumia.Box["}
    with Bot(lumia.pipe.on("odd")(odd), handler) as bot:
        assert bot.start("odd", 1).outcome == "done"


class Ends:
    """A part of a bot that notes when it is closed, and may fail to."""

    def __init__(self, name: str, log: list[str], fails: bool = False) -> None:
        self.name, self.log, self.fails = name, log, fails

    def close(self) -> None:
        self.log.append(self.name)
        if self.fails:
            raise OSError(self.name)


def test_a_bot_is_taken_down_in_order_even_when_a_part_fails() -> None:
    log: list[str] = []
    bot = bare()
    bot.plugins, bot._loop = Ends("plugins", log, fails=True), Ends("loop", log)  # type: ignore[assignment]
    bot.transport = Ends("transport", log)  # type: ignore[assignment]
    with pytest.raises(OSError, match="plugins"):
        bot.activate().close()
    assert log == ["plugins", "loop", "transport"]
    assert runtime.active() is None


def test_all_async_handlers_of_a_bot_share_one_loop_that_ends_with_it() -> None:
    names: list[str] = []

    @lumia.pipe.on("async")
    async def asynchronous(content: Boxed) -> None:
        names.append(threading.current_thread().name)

    with Bot(asynchronous) as bot:
        bot.start("async", 1)
        bot.start("async", 2)
        loop = bot.runtime._loop
        assert loop is not None and loop._thread.is_alive()
    assert set(names) == {"lumia-async"} and not loop._thread.is_alive()
