"""What arrives when there is no room is held and shown, and stored as soon as there is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lumia import adapters
from lumia.adapters import holding, states
from lumia.errors import BackendUnavailableError, LaneFullError, PayloadError
from lumia.gateway import BusyError
from lumia.testing import Bot
from tests.support.wait import until


@pytest.fixture
def bot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    monkeypatch.setattr(holding, "PAUSES", (0.001, 0.005))
    monkeypatch.setattr(states, "EVERY", 0.05)
    with Bot() as bot:
        yield bot


def test_it_is_tried_until_there_is_room_and_shown_meanwhile(bot: Bot) -> None:
    state = adapters.account("toy", "main")
    state.connected("@toy")
    errors: list[Exception] = [
        BackendUnavailableError("the broker is away"), BusyError(7), LaneFullError("chat 7 is full", wait=60.0),
    ]  # fmt: skip
    details: list[str] = []

    async def store() -> str:
        details.append(state.detail)
        if errors:
            raise errors.pop(0)
        return "r1"

    assert asyncio.run(adapters.hold(state, store)) == "r1"
    assert details == ["@toy", *["@toy; holds 1 back: the broker is away"] * 3]
    assert state.detail == "@toy"


def test_a_lane_that_stays_full_is_seen_by_every_process(bot: Bot) -> None:
    state = adapters.account("toy", "main")
    state.listening()

    async def held() -> None:
        async def store() -> None:
            raise LaneFullError("the lane of chat 7 is full")

        tasks = [asyncio.create_task(adapters.hold(state, store)) for _ in range(3)]
        await asyncio.to_thread(until, lambda: "holds 3 back: the lane" in adapters.accounts()[-1].detail)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run(held())
    assert state.detail == ""
    until(lambda: not adapters.accounts()[-1].detail)


def test_what_trying_again_can_not_mend_is_not_held(bot: Bot) -> None:
    state = adapters.account("toy", "main")

    async def store() -> None:
        raise PayloadError("no message")

    with pytest.raises(PayloadError):
        asyncio.run(adapters.hold(state, store))
    assert state.detail == ""


@pytest.mark.parametrize("error", [PayloadError("no message"), KeyError("a fault of ours")])
def test_what_is_given_up_is_shown_by_its_account(bot: Bot, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(holding, "PATIENCE", 0.0)
    monkeypatch.setattr(holding, "FAULT_PAUSE", 0.001)
    state = adapters.account("toy", "main")
    state.connected("@toy")

    async def store() -> None:
        raise error

    for what in ("message 6", "message 7"):
        assert asyncio.run(adapters.until_stored(state, store, what)) is None
    told = f"@toy; 2 could not be taken, the last: message 7: {type(error).__name__}: {error}"
    assert state.detail == told
    until(lambda: adapters.accounts()[-1].detail == told)
