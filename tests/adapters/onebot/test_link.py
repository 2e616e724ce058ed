"""Actions and their answers over connections that come, go, replace one another and die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from adapters.onebot import frames
from adapters.onebot.errors import UnknownOutcomeError
from adapters.onebot.frames import Answer
from adapters.onebot.link import Link
from lumia.errors import UnreachableError


class Wire:
    """A socket that keeps what it was given."""

    def __init__(self) -> None:
        self.out: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None
        self.wrote, self.gone = asyncio.Event(), asyncio.Event()

    async def send(self, text: str) -> None:
        if self.closed:
            raise UnreachableError("closed")
        self.out.append(json.loads(text))
        self.wrote.set()

    async def close(self, code: int, reason: str) -> None:
        self.closed = self.closed or (code, reason)
        self.gone.set()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 10))


def linked(grace: float = 0.05) -> Link:
    return Link("main", "10001", lambda link: None, grace=grace)


def answered(link: Link, echo: str, data: Any = None, **more: Any) -> bool:
    return link.pending.take(frames.answer({"status": "ok", "retcode": 0, "data": data, "echo": echo, **more}))


async def asked(link: Link, wire: Wire, **options: Any) -> tuple[asyncio.Task[Answer], str]:
    wire.wrote.clear()
    calling = asyncio.create_task(link.call("get_status", {}, **options))
    await wire.wrote.wait()
    return calling, str(wire.out[-1]["echo"])


class TestCalls:
    def test_answers_find_who_asked_in_whatever_order(self) -> None:
        async def test() -> None:
            link, wire = linked(), Wire()
            link.attach(wire, "universal")
            one, first = await asked(link, wire)
            other, second = await asked(link, wire)
            assert answered(link, second, 2)
            assert answered(link, first, 1)
            assert ((await one).data, (await other).data) == (1, 2)
            assert len(link.pending) == 0

        run(test)

    def test_a_stream_is_one_answer_with_its_parts(self) -> None:
        async def test() -> None:
            link, wire = linked(), Wire()
            link.attach(wire, "universal")
            calling, echo = await asked(link, wire)
            for n in range(3):
                answered(link, echo, {"type": "stream", "n": n}, stream="stream-action")
            answered(link, echo, {"type": "response"}, stream="stream-action")
            answer = await calling
            assert [part.data["n"] for part in answer.parts] == [0, 1, 2]
            assert answer.data == {"type": "response"}

        run(test)

    def test_without_a_connection_nothing_was_done(self) -> None:
        async def test() -> None:
            link, wire = linked(), Wire()
            link.attach(wire, "event")
            with pytest.raises(UnreachableError):
                await link.call("get_status", {})

        run(test)

    def test_without_an_answer_nobody_knows(self) -> None:
        async def test() -> None:
            link, wire = linked(), Wire()
            link.attach(wire, "universal")
            with pytest.raises(UnknownOutcomeError, match="within"):
                await link.call("get_status", {}, wait=0.01)

        run(test)

    def test_a_cut_is_unknown_when_no_answer_comes_later(self) -> None:
        async def test() -> None:
            link, wire = linked(), Wire()
            link.attach(wire, "universal")
            calling, _ = await asked(link, wire)
            link.detach(wire)
            with pytest.raises(UnknownOutcomeError, match="cut"):
                await calling

        run(test)

    def test_an_answer_may_come_on_the_next_connection(self) -> None:
        async def test() -> None:
            link, wire, next = linked(grace=5), Wire(), Wire()
            link.attach(wire, "universal")
            calling, echo = await asked(link, wire)
            link.detach(wire)
            link.attach(next, "universal")
            assert answered(link, echo, "late")
            assert (await calling).data == "late"

        run(test)

    @pytest.mark.parametrize("echo", [None, "", "nobody", 5, ["x"], {"a": 1}])
    def test_answers_for_nobody_are_left_alone(self, echo: Any) -> None:
        async def test() -> None:
            assert not linked().pending.take(Answer("ok", 0, echo=echo))

        run(test)


class TestRoles:
    def test_two_sockets_share_the_roles(self) -> None:
        async def test() -> None:
            link, api, events = linked(), Wire(), Wire()
            link.attach(events, "event")
            assert (link.ready, link.open) == (False, True)
            link.attach(api, "api")
            assert link.ready
            _, _ = await asked(link, api)
            assert not events.out

        run(test)

    def test_the_second_connection_replaces_the_first(self) -> None:
        async def test() -> None:
            link, old, new = linked(), Wire(), Wire()
            link.attach(old, "universal")
            link.attach(new, "universal")
            await old.gone.wait()
            link.detach(old)
            assert link.ready
            await asked(link, new)

        run(test)

    def test_a_replaced_connection_stays_until_it_has_answered(self) -> None:
        async def test() -> None:
            link, old, new = linked(grace=60), Wire(), Wire()
            link.attach(old, "universal")
            calling, echo = await asked(link, old)
            link.attach(new, "universal")
            await asked(link, new)
            assert old.closed is None
            answered(link, echo, "kept")
            assert (await calling).data == "kept"
            await old.gone.wait()

        run(test)

    def test_three_missed_heartbeats_end_a_connection_that_sends_them(self) -> None:
        async def test() -> None:
            link, quiet, beating = linked(), Wire(), Wire()
            link.attach(quiet, "api")
            link.attach(beating, "event")
            link.beat(beating, 0.01)
            await beating.gone.wait()
            assert quiet.closed is None
            assert not link.ready

        run(test)
