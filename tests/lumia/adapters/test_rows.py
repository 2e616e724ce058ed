"""What a chat says is done in order, what others say beside it, and who puts in too much waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from lumia.adapters import Rows


def test_a_chat_keeps_its_order_and_holds_up_no_other() -> None:
    failures: list[Exception] = []

    async def test() -> None:
        rows, done, gate = Rows(failures.append), [], asyncio.Event()

        def work(name: str, *, wait: bool = False) -> Callable[[], Coroutine[Any, Any, None]]:
            async def doing() -> None:
                if wait:
                    await gate.wait()
                done.append(name)

            return doing

        await rows.put("a", work("a1", wait=True))
        await rows.put("a", work("a2"))
        await rows.put("b", work("b1"))
        while not done:
            await asyncio.sleep(0)
        assert done == ["b1"]
        gate.set()
        await rows.idle()
        assert done == ["b1", "a1", "a2"]

    asyncio.run(test())


def test_who_puts_too_much_waits() -> None:
    failures: list[Exception] = []

    async def test() -> None:
        rows, gate = Rows(failures.append, room=2), asyncio.Event()

        async def doing() -> None:
            await gate.wait()

        for _ in range(2):
            await rows.put("a", doing)
        third = asyncio.create_task(rows.put("b", doing))
        await asyncio.sleep(0.01)
        assert not third.done()
        gate.set()
        await third
        await rows.idle()

    asyncio.run(test())


def test_one_that_fails_is_counted_and_the_next_goes_on() -> None:
    failures: list[Exception] = []

    async def test() -> None:
        rows, done = Rows(failures.append), []

        async def bad() -> None:
            raise ValueError("bad")

        async def good() -> None:
            done.append(1)

        await rows.put("a", bad)
        await rows.put("a", good)
        await rows.idle()
        assert (done, rows.dropped, str(failures[0])) == ([1], 1, "bad")

    asyncio.run(test())


def test_what_is_cancelled_is_not_done() -> None:
    async def test() -> None:
        rows, done = Rows(lambda error: None), []

        async def doing() -> None:
            await asyncio.sleep(0)
            done.append(1)

        for _ in range(3):
            await rows.put("a", doing)
        rows.cancel()
        async with asyncio.timeout(5):
            await rows.idle()
        assert not done

    asyncio.run(test())
