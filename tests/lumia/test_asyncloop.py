"""The event loop of async handlers: limits, and handlers that would take it down."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lumia.asyncloop import AsyncLoop
from lumia.errors import LumiaError
from tests.support.wait import until


@pytest.fixture
def loop() -> Iterator[AsyncLoop]:
    made = AsyncLoop(grace=0.1)
    yield made
    made.close()


async def answers(value: Any = 1) -> Any:
    await asyncio.sleep(0)
    return value


async def raises(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


def test_it_gives_results_and_errors_back_to_the_calling_thread(loop: AsyncLoop) -> None:
    assert loop.run(answers("here"), 5, "p.f") == "here"
    with pytest.raises(ZeroDivisionError):
        loop.run(raises(ZeroDivisionError()), 5, "p.f")


def test_many_threads_share_it(loop: AsyncLoop) -> None:
    got: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: got.append(loop.run(answers(n), 5, "p.f"))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(got) == list(range(20))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_an_error_that_ends_programs_does_not_end_the_loop(loop: AsyncLoop, error: BaseException) -> None:
    with pytest.raises(type(error)):
        loop.run(raises(error), 5, "p.f")
    assert loop.run(answers(), 5, "p.f") == 1


def test_a_task_left_behind_that_exits_does_not_end_the_loop(loop: AsyncLoop, caplog: pytest.LogCaptureFixture) -> None:
    kept: list[Any] = []

    async def leaves() -> None:
        kept.append(asyncio.get_running_loop().create_task(raises(SystemExit(1))))

    with caplog.at_level(logging.ERROR, "lumia"):
        loop.run(leaves(), 5, "p.f")
        until(lambda: kept[0].done())
        assert loop.run(answers(), 5, "p.f") == 1
        until(lambda: "it goes on" in caplog.text)
    assert isinstance(kept[0].exception(), SystemExit)


def test_a_handler_is_cancelled_at_its_limit_and_may_tidy_up(loop: AsyncLoop) -> None:
    tidied: list[bool] = []

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append(True)

    with pytest.raises(LumiaError, match=r"p\.f ran longer than its 0\.05 s and was cancelled"):
        loop.run(hangs(), 0.05, "p.f")
    assert tidied == [True]


def test_a_time_out_of_the_handlers_own_is_not_taken_for_its_limit(loop: AsyncLoop) -> None:
    with pytest.raises(TimeoutError, match="the other side is slow"):
        loop.run(raises(TimeoutError("the other side is slow")), 5, "p.f")


def test_a_handler_that_ignores_being_cancelled_is_given_up(loop: AsyncLoop) -> None:
    free, running = asyncio.Event(), []

    async def stubborn() -> None:
        running.append(asyncio.get_running_loop())
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await free.wait()

    with pytest.raises(LumiaError, match=r"p\.f did not end within 0\.1 s after its limit"):
        loop.run(stubborn(), 0.05, "p.f")
    assert loop.run(answers(), 5, "p.f") == 1
    running[0].call_soon_threadsafe(free.set)


def test_a_handler_that_blocks_the_loop_is_given_up_and_what_waited_is_not_begun_later(loop: AsyncLoop) -> None:
    free, begun = threading.Event(), []

    async def blocks() -> None:
        free.wait(10)

    async def waits() -> None:
        begun.append(True)

    with pytest.raises(LumiaError, match="blocks the event loop"):
        loop.run(blocks(), 0.05, "p.f")
    with pytest.raises(LumiaError, match="blocks the event loop"):
        loop.run(waits(), 0.05, "p.g")
    free.set()
    assert loop.run(answers(), 5, "p.f") == 1
    assert begun == []


def test_closing_cancels_what_still_runs() -> None:
    loop, running, got = AsyncLoop(), threading.Event(), []

    async def hangs() -> None:
        running.set()
        await asyncio.Event().wait()

    def caller() -> None:
        try:
            loop.run(hangs(), 60, "p.f")
        except BaseException as error:
            got.append(type(error))

    thread = threading.Thread(target=caller)
    thread.start()
    assert running.wait(10)
    loop.close()
    thread.join(10)
    assert got == [asyncio.CancelledError]


def test_a_closed_loop_runs_nothing_and_can_be_closed_again() -> None:
    loop = AsyncLoop()
    loop.close()
    with pytest.raises(LumiaError, match=r"p\.f was not begun: this process is ending"):
        loop.run(answers(), 5, "p.f")
    loop.close()


def test_closing_does_not_wait_for_ever_for_a_blocked_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, free, blocked = AsyncLoop(grace=0.05), threading.Event(), threading.Event()
    monkeypatch.setattr(loop._thread, "join", lambda timeout: None)

    async def blocks() -> None:
        blocked.set()
        free.wait(10)

    def caller(work: Coroutine[Any, Any, Any]) -> None:
        with pytest.raises(LumiaError):
            loop.run(work, 0.05, "p.f")

    caller(blocks())
    assert blocked.is_set()
    loop.close()
    monkeypatch.undo()
    free.set()
    loop._thread.join(10)
    assert not loop._thread.is_alive()
    loop.close()
