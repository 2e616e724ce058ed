"""What arrives under numbers: in order per chat, counted once everything before it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.adapters import Numbered, numbered
from lumia.errors import BackendUnavailableError


async def nothing() -> None:
    pass


async def turns(until: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not until():
            await asyncio.sleep(0)


@given(st.permutations(range(1, 12)), st.integers(0, 11))
def test_a_number_counts_when_all_before_it_are_done(order: list[int], count: int) -> None:
    async def scene() -> None:
        arrived, gates = Numbered("toy/main", 0), {number: asyncio.Event() for number in order}
        for number, gate in sorted(gates.items()):

            async def work(gate: asyncio.Event = gate) -> None:
                await gate.wait()

            arrived.offer(f"chat {number}", number, work)
        done: set[int] = set()
        for number in order[:count]:
            gates[number].set()
            done.add(number)
            expected = next(n for n in range(12) if n + 1 not in done)
            await turns(lambda: arrived.committed == expected)  # noqa: B023
        assert arrived.newest == 11
        for gate in gates.values():
            gate.set()
        await arrived.settle()
        assert arrived.committed == 11
        arrived.restart()
        arrived.skip(3)  # whoever counts anew is followed
        assert (arrived.committed, arrived.newest) == (3, 3)

    asyncio.run(scene())


def test_a_chat_keeps_its_order_and_what_fails_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> list[str]:
        arrived, done = Numbered("toy/main"), list[str]()

        async def bad() -> None:
            raise ValueError("a fault of ours")

        async def good(name: str) -> None:
            await asyncio.sleep(0)
            done.append(name)

        arrived.offer("a", 1, bad)
        arrived.offer("a", 2, lambda: good("first"))
        arrived.offer("a", None, lambda: good("second"))
        await arrived.settle()
        assert arrived.committed == 2
        return done

    assert asyncio.run(scene()) == ["first", "second"]
    assert "toy/main" in caplog.text
    assert "a fault of ours" in caplog.text


def test_with_too_much_waiting_there_is_no_room_until_half_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered, "MOST", 4)

    async def scene() -> None:
        arrived, gate = Numbered("toy/main"), asyncio.Event()

        async def waits() -> None:
            await gate.wait()

        for number in range(4):
            arrived.offer(str(number), number, waits)
        assert arrived.full
        assert not await arrived.room(0.01)
        gate.set()
        assert await arrived.room()
        assert not arrived.full

    asyncio.run(scene())


def test_how_far_it_is_is_saved_when_it_moves_and_at_the_end_though_the_broker_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numbered, "SAVE_EVERY", 0.0)
    saved: list[int | None] = []
    refusals: list[int] = []

    async def scene() -> None:
        arrived, never = Numbered("toy/main", 5), asyncio.Event()

        async def save() -> None:
            if not refusals:
                refusals.append(1)
                raise BackendUnavailableError("the broker is away")
            saved.append(arrived.committed)

        async with arrived.kept(save):
            arrived.offer("a", 6, nothing)
            await turns(lambda: bool(refusals))
            arrived.offer("a", 7, nothing)
            await turns(lambda: saved == [7])

            async def stuck() -> None:
                await never.wait()

            arrived.offer("a", 8, stuck)
            arrived.offer("b", 9, nothing)
            await turns(lambda: saved == [7, 7])
        assert saved == [7, 7, 7], "what is not done is not counted, and comes again"

    asyncio.run(scene())


def test_room_that_is_taken_before_who_waited_looks_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered, "MOST", 2)

    async def scene() -> None:
        arrived, gates = Numbered("toy/main"), [asyncio.Event() for _ in range(4)]
        for number in (0, 1):
            arrived.offer(str(number), number, gates[number].wait)  # type: ignore[arg-type]
        waiting = asyncio.create_task(arrived.room())
        await turns(lambda: bool(arrived._roomy._waiters))
        arrived.moved.clear()
        gates[0].set()
        await turns(arrived.moved.is_set)
        for number in (2, 3):
            arrived.offer(str(number), number, gates[number].wait)  # type: ignore[arg-type]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        for gate in gates:
            gate.set()
        assert await waiting

    asyncio.run(asyncio.wait_for(scene(), 5))


def test_a_fault_of_saving_ends_no_saving(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(numbered, "SAVE_EVERY", 0.0)
    saved: list[int | None] = []

    async def scene() -> None:
        arrived = Numbered("toy/main")

        async def save() -> None:
            saved.append(arrived.committed)
            if len(saved) == 1:
                raise RuntimeError("a fault of ours")

        async with arrived.kept(save):
            arrived.offer("a", 6, nothing)
            await turns(lambda: saved == [6])
            arrived.offer("a", 7, nothing)
            await turns(lambda: saved == [6, 7])

    asyncio.run(scene())
    assert "toy/main: how far it is was not written down" in caplog.text


def test_what_is_left_at_the_end_has_stopped() -> None:
    ended: list[str] = []

    async def scene() -> None:
        arrived, begun = Numbered("toy/main"), asyncio.Event()

        async def slow() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("slow")

        save: Callable[[], Awaitable[None]] = nothing
        async with arrived.kept(save):
            arrived.offer("a", 1, slow)
            await begun.wait()
        assert ended == ["slow"]
        assert arrived.committed is None

    asyncio.run(scene())
