"""An account is connected again after whatever ended its connection, and one that is refused waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from lumia import adapters
from lumia.adapters import ClosedError, NotAdmittedError, Owned, keeping, owning
from lumia.testing import Bot


@pytest.fixture(autouse=True)
def bot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    monkeypatch.setattr(keeping, "PAUSES", (0.0, 0.0))
    with Bot() as found, found.runtime.activated():
        yield found


@asynccontextmanager
async def kept(connect: Callable[[Owned], Awaitable[None]], *down: Callable[[str], None]) -> AsyncIterator[None]:
    task = asyncio.create_task(adapters.keeping_up(adapters.account("toy", "main"), connect, *down))
    try:
        async with asyncio.timeout(10):
            yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert task.cancelled()


async def turns(until: Callable[[], bool]) -> None:
    while not until():
        await asyncio.sleep(0.001)


def test_a_failure_is_told_and_the_connection_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    tries, told = list[Owned](), list[str]()

    async def connect(owned: Owned) -> None:
        tries.append(owned)
        if len(tries) == 1:
            raise RuntimeError("a fault of ours")
        await asyncio.Event().wait()

    async def scene() -> None:
        async with kept(connect, told.append):
            await turns(lambda: len(tries) == 2)

    asyncio.run(scene())
    assert [one.name for one in tries] == ["toy/main", "toy/main"]
    assert told == ["an error of this adapter, see the gateway's log"]
    assert "a fault of ours" in caplog.text


@pytest.mark.parametrize("grouped", [False, True])
def test_who_is_not_admitted_is_told_keeps_its_turn_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    tries: list[Owned] = []

    async def connect(owned: Owned) -> None:
        tries.append(owned)
        error = NotAdmittedError("the token is wrong: paste another one")
        raise ExceptionGroup("shards", [error]) if grouped else error

    async def scene() -> None:
        async with kept(connect):
            state = adapters.account("toy", "main")
            await turns(lambda: state.state == "refused")
            assert state.detail == "the token is wrong: paste another one"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), owning("toy/main"):
                    pass
            assert len(tries) == 1
        monkeypatch.setattr(keeping, "REFUSED_PAUSE", 0.0)
        async with kept(connect):
            await turns(lambda: len(tries) >= 3)

    asyncio.run(scene())


def test_a_lost_turn_is_waited_for_again(bot: Bot) -> None:
    tries: list[Owned] = []

    async def connect(owned: Owned) -> None:
        tries.append(owned)
        if len(tries) == 1:
            owned.lost.set()
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await asyncio.Event().wait()

    async def scene() -> None:
        async with kept(connect):
            await turns(lambda: len(tries) == 2)
            state = adapters.account("toy", "main")
            assert (state.state, state.detail) == ("disconnected", "another gateway may have it by now")

    asyncio.run(scene())


def test_a_close_says_its_code_or_that_there_is_none() -> None:
    class Closed(Exception):
        def __init__(self, rcvd: object) -> None:
            self.rcvd = rcvd

    class Frame:
        code, reason = 4004, "bad token"

    told, cut = ClosedError.of(Closed(Frame())), ClosedError.of(Closed(None))
    assert (told.code, told.reason, cut.code, cut.reason) == (4004, "bad token", None, "")
