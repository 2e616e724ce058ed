"""The step being executed: what it may be told, and what happens to threads and tasks it leaves behind."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.context import MAX_NOTES, active, required
from lumia.errors import FlowError
from lumia.testing import Bot

TEXT = st.characters(codec="utf-8", exclude_characters="\x00")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(TEXT, max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_outside_of_handlers_there_is_no_step() -> None:
    assert active() is None
    with pytest.raises(FlowError, match=r"next\(\) works only while a handler runs"):
        required("next()")
    lumia.annotate(tokens=1)


def notes(bot: Bot, run_id: str) -> dict[str, Any]:
    entries = reversed(bot.transport.tail("0", 0, 10_000))
    detail = next(entry.detail for entry in entries if entry.kind == "step" and entry.run_id == run_id)
    return {name: note for name, note in detail.items() if name != "box"}


def test_notes_stand_in_the_journal_entry_of_the_step() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        lumia.annotate(tokens=12, model="offline")
        lumia.annotate(tokens=13, parts=["a", None, {"b": 1.5}])

    with Bot(handler) as bot:
        run = bot.start("msg", 1)
        assert notes(bot, run.run_id) == {"tokens": 13, "model": "offline", "parts": ["a", None, {"b": 1.5}]}


@lumia.pipe.on("noting")
def notes_its_content(content: lumia.Box[Any]) -> None:
    lumia.annotate(**content.into())


@pytest.fixture(scope="module")
def noting() -> Iterator[Bot]:
    with Bot(notes_its_content) as bot:
        yield bot


@given(values=st.dictionaries(st.text("abc", min_size=1, max_size=3), JSON_VALUES, max_size=3))
def test_notes_are_kept_as_they_are_when_they_are_json(noting: Bot, values: dict[str, Any]) -> None:
    with noting.runtime.activated():
        run = noting.start("noting", values)
        assert notes(noting, run.run_id) == values


def test_notes_that_could_not_be_stored_are_made_storable() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        lumia.annotate(text="a\x00b\ud800", inside=[{"k\x00": "\\u0000"}])

    with Bot(handler) as bot:
        run = bot.start("msg", 1)
        assert notes(bot, run.run_id) == {"text": "a␀b?", "inside": [{"k␀": "\\u0000"}]}


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "wrong", [object(), float("nan"), {1, 2}, b"bytes", deep(100_000)], ids=["object", "nan", "set", "bytes", "deep"]
)
def test_a_note_that_is_no_json_fails_the_step_by_name(wrong: object) -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        lumia.annotate(fine=1, wrong=wrong)

    with Bot(handler) as bot:
        run = bot.start("msg", 1)
        assert run.outcome == "failed" and len(run.steps) == 1
        assert "annotate() in test.handler" in run.reason


def test_notes_do_not_fill_the_journal() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        lumia.annotate(prompt="x" * MAX_NOTES)

    with Bot(handler) as bot:
        assert f"the journal takes {MAX_NOTES}" in bot.start("msg", 1).reason


ATTEMPTS: list[tuple[str, Callable[[], Any]]] = [
    ("next()", lambda: lumia.utils.next()),
    ("stop()", lambda: lumia.utils.stop("late")),
    ("start()", lambda: lumia.pipe.start("other", lumia.Box.any(1))),
    ("start()", lambda: lumia.event.start("other", lumia.Box.any(1))),
    ("lumia.store", lambda: lumia.store.set("late", 1)),
    ("lumia.store", lambda: lumia.store.of("test").set("late", 1)),
    ("lumia.store", lambda: lumia.store.incr("late")),
    ("lumia.store", lambda: lumia.store.get("late")),
    ("lumia.effect()", lambda: lumia.effect("late", LATE.append, 1)),
    ("annotate()", lambda: lumia.annotate(late=1)),
]
LATE: list[int] = []


@pytest.mark.parametrize("call, attempt", ATTEMPTS)
def test_a_thread_left_behind_gets_a_clear_error_and_changes_nothing(call: str, attempt: Callable[[], Any]) -> None:
    ended, errors, threads = threading.Event(), [], []

    def left_behind() -> None:
        ended.wait(10)
        try:
            attempt()
        except lumia.LumiaError as error:
            errors.append(error)

    @lumia.pipe.on("msg", priv=2)
    def leaves(content: lumia.Box[Any]) -> None:
        threads.append(threading.Thread(target=contextvars.copy_context().run, args=(left_behind,)))
        threads[0].start()

    @lumia.pipe.on("other")
    def other(content: lumia.Box[Any]) -> None:
        lumia.store.set("late", "started")

    with Bot(leaves, other) as bot:
        run = bot.start("msg", 1)
        before = lumia.runs.cursor()
        ended.set()
        threads[0].join(10)
        bot.settle()
        (error,) = errors
        assert isinstance(error, FlowError)
        assert all(text in str(error) for text in ("test.leaves", run.run_id, call, "contextvars.Context"))
        assert lumia.runs.cursor() == before
        assert lumia.store.of("test").get("late") is None
    assert LATE == []


def test_a_task_left_behind_by_an_async_handler_gets_it_too() -> None:
    ended, heard = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    kept: list[asyncio.Task[None]] = []

    async def left_behind() -> None:
        while not ended.is_set():
            await asyncio.sleep(0.001)
        try:
            lumia.pipe.start("msg", lumia.Box.any(1))
        except FlowError as error:
            errors.append(error)
        heard.set()

    @lumia.pipe.on("msg")
    async def leaves(content: lumia.Box[Any]) -> None:
        kept.append(asyncio.create_task(left_behind()))

    with Bot(leaves) as bot:
        bot.start("msg", 1)
        ended.set()
        assert heard.wait(10)
        bot.settle()
    assert len(kept) == 1 and "test.leaves has ended" in str(errors[0])


def test_a_thread_with_a_context_of_its_own_counts_as_outside() -> None:
    ended, threads = threading.Event(), []

    def receives() -> None:
        ended.wait(10)
        lumia.pipe.start("received", lumia.Box.any(1))

    @lumia.pipe.on("connect")
    def connects(content: lumia.Box[Any]) -> None:
        threads.append(threading.Thread(target=contextvars.Context().run, args=(receives,)))
        threads[0].start()

    @lumia.pipe.on("received")
    def received(content: lumia.Box[Any]) -> None:
        lumia.store.set("received", True)

    with Bot(connects, received) as bot:
        bot.start("connect", 1)
        ended.set()
        threads[0].join(10)
        bot.settle()
        assert lumia.store.of("test").get("received") is True


def test_a_thread_that_is_joined_works_for_its_step() -> None:
    @lumia.pipe.on("msg")
    def handler(content: lumia.Box[Any]) -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(lumia.store.set, "from", "a thread"))
        thread.start()
        thread.join(10)

    with Bot(handler) as bot:
        assert bot.start("msg", 1).outcome == "done"
        assert lumia.store.of("test").get("from") == "a thread"
