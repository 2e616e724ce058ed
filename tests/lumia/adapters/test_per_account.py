"""Accounts are served as the settings say, each by a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from lumia import adapters
from lumia.adapters import per_account
from lumia.testing import Bot


@dataclass(frozen=True)
class Account:
    name: str
    token: str = "t"


class Toy:
    """An adapter: accounts are its settings, events what its tasks do."""

    def __init__(self) -> None:
        self.accounts = {Account("one"), Account("two")}
        self.names = {"one", "two"}
        self.events: list[str] = []

    async def serve(self, account: Account) -> None:
        self.events.append(f"begin {account.name} {account.token}")
        try:
            if account.token == "bad":
                raise RuntimeError("a fault of ours")
            await asyncio.Event().wait()
        finally:
            self.events.append(f"end {account.name} {account.token}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(
            adapters.following("toy", lambda: self.accounts, self.serve, names=lambda: self.names)
        )
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def has(self, *events: str) -> None:
        async with asyncio.timeout(10):
            while not set(events) <= set(self.events):
                await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def bot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    monkeypatch.setattr(per_account, "LOOK", 0.001)
    with Bot() as bot:
        yield bot


def test_a_changed_account_is_ended_before_it_begins_anew_and_one_taken_out_is_told() -> None:
    toy = Toy()

    async def scene() -> None:
        async with toy.running():
            await toy.has("begin one t", "begin two t")
            toy.accounts = {Account("one", "new")}
            await toy.has("begin one new", "end two t")
            assert toy.events.index("end one t") < toy.events.index("begin one new")
            assert adapters.account("toy", "two").state == "unseen", "it is configured, only not to be served"
            toy.accounts, toy.names = set(), set()
            await toy.has("end one new")
            while adapters.account("toy", "one").state != "disconnected":
                await asyncio.sleep(0)

    asyncio.run(scene())
    assert adapters.account("toy", "one").detail == "taken out of config/toy.toml"
    assert len(toy.events) == 6


def test_one_that_fails_is_begun_anew_and_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    toy = Toy()
    toy.accounts = {Account("one", "bad"), Account("two")}

    async def scene() -> None:
        async with toy.running(), asyncio.timeout(10):
            while toy.events.count("begin one bad") < 3:
                await asyncio.sleep(0)
            assert "end two t" not in toy.events

    asyncio.run(scene())
    assert "toy/one: its task has failed and is begun anew: a fault of ours" in caplog.text
    assert toy.events.count("end two t") == 1
