"""The result of a run and of everything it caused, and the journal as it grows."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import lumia
from lumia.errors import NotRunningError, PayloadError, RunTimeoutError, UnknownRunError
from lumia.testing import Bot, ManualClock

Boxed = lumia.Box[Any]


@lumia.pipe.on("quick")
def quick(content: Boxed) -> None:
    """Do nothing."""


@lumia.pipe.on("send")
def sends(content: Boxed) -> None:
    for reply in content.into():
        lumia.event.start("msg.send, dest=1.console.private-ann", lumia.Box.any(reply))


@lumia.pipe.on("descend")
def descends(content: Boxed) -> None:
    left = content.into()
    if left:
        lumia.pipe.start("descend", lumia.Box.any(left - 1))


def test_a_result_has_the_shape_that_scripts_rely_on() -> None:
    with Bot(quick, clock=ManualClock()) as bot:
        result = bot.start("quick", 1)
        assert result.as_dict() == {
            "run_id": result.run_id, "outcome": "done", "replies": [], "ms": 0.0,
            "steps": [{"handler": "test.quick", "outcome": "stop", "reason": "", "ms": 0.0}],
        }  # fmt: skip


def test_a_run_that_goes_on_has_no_outcome_yet() -> None:
    with Bot(quick, clock=ManualClock()) as bot:
        run_id = lumia.pipe.start("quick", lumia.Box.any(1), delay=5)
        waiting = lumia.runs.result(run_id)
        assert waiting is not None and (waiting.outcome, waiting.ms, waiting.steps) == (None, 0.0, [])
        bot.settle(5)
        ended = lumia.runs.result(run_id)
        assert ended is not None and (ended.outcome, ended.ms) == ("done", 5000.0)


def test_a_clock_set_back_in_between_gives_no_negative_duration() -> None:
    with Bot(quick, clock=(clock := ManualClock())) as bot:
        run_id = lumia.pipe.start("quick", lumia.Box.any(1), delay=5)
        clock.move(-3600)
        bot.settle(5)
        result = lumia.runs.result(run_id)
        assert result is not None and (result.outcome, result.ms) == ("done", 0.0)


def test_replies_are_in_the_order_they_were_sent() -> None:
    with Bot(sends) as bot:
        assert bot.start("send", ["one", {"text": "two"}]).replies == ["one", "two"]


def test_a_reply_that_can_not_be_read_says_so() -> None:
    with Bot(sends) as bot:
        result = bot.start("send", [{"no": "text"}, "fine"])
        assert result.replies[0].startswith("<unreadable reply:") and result.replies[1] == "fine"


def test_a_tree_of_any_depth_can_be_read() -> None:
    with Bot(descends) as bot:
        result = bot.start("descend", 2000)
        assert result.outcome == "done" and len(result.steps) == 2001


def test_parents_come_before_their_children_in_the_order_these_were_started() -> None:
    @lumia.pipe.on("family")
    def family(content: Boxed) -> None:
        name = content.into()
        for child in {"root": ["a", "b"], "a": ["a1", "a2"]}.get(name, []):
            lumia.pipe.start("family", lumia.Box.any(child))
        lumia.utils.stop(name)

    with Bot(family) as bot:
        assert [step.reason for step in bot.start("family", "root").steps] == ["root", "a", "a1", "a2", "b"]


def test_a_detached_run_is_no_part_of_the_tree() -> None:
    @lumia.pipe.on("parent")
    def parent(content: Boxed) -> None:
        lumia.pipe.start("quick", content, detach=True)
        lumia.pipe.start("send", lumia.Box.any(["mine"]))
        lumia.pipe.start("send", lumia.Box.any(["theirs"]), detach=True)

    with Bot(parent, quick, sends) as bot:
        result = bot.start("parent", 1)
        assert [step.handler for step in result.steps] == ["test.parent", "test.sends"]
        assert result.replies == ["mine"]


def test_an_unknown_run_has_no_result() -> None:
    with Bot(quick):
        assert lumia.runs.result("nobody") is None
        with pytest.raises(UnknownRunError, match="nobody"):
            lumia.runs.wait("nobody")


def test_waiting_ends_with_the_tree_or_with_the_time() -> None:
    with Bot(sends) as bot:
        run_id = lumia.pipe.start("send", lumia.Box.any(["hi"]))
        with pytest.raises(RunTimeoutError, match=run_id):
            lumia.runs.wait(run_id, timeout=0.01)
        bot.transport.serve(bot.runtime, threads=1)
        assert lumia.runs.wait(run_id, timeout=10).replies == ["hi"]


def test_waiting_does_not_block_the_event_loop() -> None:
    with Bot(sends) as bot:
        bot.transport.serve(bot.runtime, threads=1)

        async def both() -> list[Any]:
            runs = [lumia.pipe.start("send", lumia.Box.any([text])) for text in "ab"]
            return await asyncio.gather(*(lumia.runs.wait_async(run, 10) for run in runs))

        assert [result.replies for result in asyncio.run(both())] == [["a"], ["b"]]


def test_a_run_whose_record_was_dropped_while_it_was_waited_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Bot(quick) as bot:
        run = bot.start("quick", 1)
        monkeypatch.setattr(bot.transport, "run", lambda run_id: None)
        with pytest.raises(UnknownRunError, match=r"\[runs\] keep"):
            lumia.runs.wait(run.run_id)


def test_the_journal_is_read_on_from_the_last_entry() -> None:
    with Bot(quick) as bot:
        assert lumia.runs.cursor() == "0"
        bot.start("quick", 1)
        first = lumia.runs.tail("0", timeout=0, limit=2)
        rest = lumia.runs.tail(first[-1].cursor, timeout=0)
        assert [entry.kind for entry in first + rest] == ["start", "step", "end"]
        assert rest[-1].cursor == lumia.runs.cursor()
        assert lumia.runs.tail(lumia.runs.cursor(), timeout=0) == []
        assert lumia.runs.tail("0", timeout=0, limit=0) == []


def test_only_what_is_new_is_told_to_who_waits_for_it() -> None:
    heard: list[Any] = []
    with Bot(quick) as bot:
        bot.start("quick", 1)
        position = lumia.runs.cursor()

        def listen() -> None:
            with bot.runtime.activated():
                heard.extend(lumia.runs.tail(position, timeout=10))

        thread = threading.Thread(target=listen)
        thread.start()
        run_id = lumia.pipe.start("quick", lumia.Box.any(2))
        thread.join(10)
        assert [(entry.kind, entry.run_id) for entry in heard] == [("start", run_id)]
        assert lumia.runs.tail("$", timeout=0) == []


@pytest.mark.parametrize("wrong", ["abc", "", "-1", "1-0", "²"])
def test_a_place_that_is_none_is_refused(wrong: str) -> None:
    with Bot(quick), pytest.raises(PayloadError, match="no place in the journal"):
        lumia.runs.tail(wrong)


def test_without_a_bot_there_is_nothing_to_ask() -> None:
    for ask in (lambda: lumia.runs.result("x"), lambda: lumia.runs.wait("x"), lumia.runs.tail, lumia.runs.cursor):
        with pytest.raises(NotRunningError):
            ask()
