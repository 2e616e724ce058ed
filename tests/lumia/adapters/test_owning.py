"""Owning: one process at a time, over at once where it can be told, and never two owners."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from lumia.adapters import Owned, owning
from lumia.errors import BackendUnavailableError, LeaseLostError, PayloadError
from lumia.inmemory import InMemoryTransport
from lumia.testing import Bot

TTL = 0.4


def on_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Let pytest run a coroutine."""

    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        async def limited() -> None:
            async with asyncio.timeout(10):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot() as found, found.runtime.activated():
        yield found


async def waiting_for(name: str, owners: list[int]) -> None:
    async with owning(name, ttl=TTL) as owned:
        owners.append(owned.token)
        await asyncio.Event().wait()


async def until_there(owners: list[int], count: int) -> None:
    while len(owners) < count:
        await asyncio.sleep(0)


@on_a_loop
async def test_the_next_one_owns_it_when_the_block_has_ended_and_has_a_higher_token(bot: Bot) -> None:
    owners: list[int] = []
    async with owning("a/main", ttl=TTL) as owned:
        second = asyncio.create_task(waiting_for("a/main", owners))
        async with owning("a/other", ttl=TTL):
            until = time.monotonic() + TTL * 2
            while time.monotonic() < until:  # it is renewed all the while
                assert bot.transport.lease("a/main", "another", TTL) == 0
                await asyncio.sleep(0)
        assert not owners and not owned.lost.is_set()
    await until_there(owners, 1)
    assert owners[0] > owned.token
    second.cancel()
    await asyncio.wait([second])
    assert bot.transport.lease("a/main", "anyone", 1.0)  # it was given back


@pytest.mark.parametrize("trouble", [BackendUnavailableError("the broker is away"), RuntimeError("no new threads")])
@on_a_loop
async def test_an_owner_whose_lease_can_not_be_renewed_has_ended_before_another_one_begins(
    bot: Bot, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    ended: list[float] = []

    async def body() -> None:
        async with owning("a/main", ttl=TTL):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(time.monotonic())

    task = asyncio.create_task(body())
    while not bot.transport._leases:
        await asyncio.sleep(0)
    real = InMemoryTransport.lease

    def away(self: InMemoryTransport, name: str, holder: str, seconds: float) -> int:
        raise trouble

    monkeypatch.setattr(InMemoryTransport, "lease", away)
    while not task.done():
        assert not real(bot.transport, "a/main", "another", TTL)
        await asyncio.sleep(0)
    while not real(bot.transport, "a/main", "another", TTL):
        await asyncio.sleep(0)
    assert time.monotonic() > ended[0]
    with pytest.raises(LeaseLostError, match="a/main"):
        await task
    assert not task.cancelling()


@on_a_loop
async def test_an_owner_learns_that_another_one_has_its_lease(bot: Bot) -> None:
    owners: list[int] = []
    task = asyncio.create_task(waiting_for("a/main", owners))
    await until_there(owners, 1)
    bot.transport._leases["a/main"] = ("another", owners[0] + 1, float("inf"))
    with pytest.raises(LeaseLostError):
        await task


@on_a_loop
async def test_who_is_cancelled_while_it_owns_is_cancelled_and_gives_back(bot: Bot) -> None:
    owners: list[int] = []
    task = asyncio.create_task(waiting_for("a/main", owners))
    await until_there(owners, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not bot.transport._leases


@on_a_loop
async def test_errors_of_the_body_come_out_as_they_are(bot: Bot) -> None:
    with pytest.raises(ZeroDivisionError):
        async with owning("a/main", ttl=TTL):
            raise ZeroDivisionError
    assert not bot.transport._leases


@on_a_loop
async def test_while_the_broker_is_away_nobody_owns_anything(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def away(self: InMemoryTransport, name: str, holder: str, seconds: float) -> int:
        asked.append(1)
        raise BackendUnavailableError("the broker is away")

    owners: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(InMemoryTransport, "lease", away)
        task = asyncio.create_task(waiting_for("a/main", owners))
        while len(asked) < 2:
            await asyncio.sleep(0)
        assert not owners
    await until_there(owners, 1)
    task.cancel()
    await asyncio.wait([task])


@on_a_loop
async def test_a_name_has_to_be_one() -> None:
    with pytest.raises(PayloadError, match="printable"):
        async with owning("a\nb"):
            raise AssertionError


def test_what_is_owned_is_told() -> None:
    assert Owned("a", 3).token == 3
