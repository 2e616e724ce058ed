"""Runs are found in journal entries by what is known of them, and summed up the same in any order of reading."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.history import MemoryHistory, RunFilter, RunSummary, newest_first, summaries, trees
from lumia.ids import child_id, id_time, timed_id
from lumia.journal import JournalEntry
from lumia.testing import Bot

T0 = 1_700_000_000.0
ROOT = timed_id(T0, 1)
CHILD = child_id(ROOT, 0, 0)


def entry(kind: str, run: str = ROOT, *, at: float = 0.0, **fields: Any) -> JournalEntry:
    made: dict[str, Any] = {"root_id": ROOT, "id": "msg", "key": "qq:1:group-7", **fields}
    return JournalEntry(kind, run, time=T0 + at, **made)


def story() -> list[JournalEntry]:
    model = {"kind": "model", "tokens_in": 100, "tokens_out": 20, "cost": 0.5}
    told = [
        entry("start", at=0.0, flow="pipe"),
        entry("effect", at=0.2, step=0, handler="a.one", outcome="done", detail=model),
        entry("step", at=0.3, step=0, handler="a.one", outcome="retry", attempt=1, detail={"tokens_in": 100}),
        entry("effect", at=0.4, step=0, handler="a.one", outcome="replayed", detail=model),
        entry("step", at=0.5, step=0, handler="a.one", outcome="next", attempt=2, detail={"tokens_in": 100}),
        entry("start", CHILD, at=0.5, id="msg.send", flow="event", detail={"cause": f"{ROOT}/0"}),
        entry("step", at=0.6, step=1, handler="a.two", outcome="stop", detail={"tokens_out": 7, "cost": 0.25}),
        entry("end", at=0.6, outcome="stopped", reason="cooldown"),
        entry("dead", CHILD, at=0.9, id="msg.send", step=0),
        entry("end", CHILD, at=0.9, id="msg.send", outcome="failed", reason="no network"),
    ]
    return [replace(one, cursor=f"{int(one.time * 1000)}-{number}") for number, one in enumerate(told)]


def test_a_run_is_summed_up_with_its_tries_tokens_and_cost() -> None:
    child, root = MemoryHistory(story()).find(RunFilter())[0], MemoryHistory(story()).find(RunFilter())[1]
    assert root == RunSummary(
        ROOT, ROOT, "pipe", "msg", "qq:1:group-7", "", "stopped", "cooldown", T0, T0 + 0.6, 2, 3, 100, 27, 0.75
    )
    assert (child.run_id, child.cause, child.outcome, child.dead) == (CHILD, f"{ROOT}/0", "failed", True)


@given(st.randoms())
def test_the_order_in_which_entries_are_read_changes_nothing(chance: random.Random) -> None:
    shuffled = story()
    chance.shuffle(shuffled)
    assert summaries(shuffled) == summaries(story())
    assert MemoryHistory(shuffled).entries(ROOT) == MemoryHistory(story()).entries(ROOT)


@given(st.sets(st.integers(0, 9)))
def test_a_journal_of_which_a_part_was_trimmed_still_tells_what_it_holds(kept: set[int]) -> None:
    part = [one for number, one in enumerate(story()) if number in kept]
    found = summaries(part)
    assert {run.run_id for run in found} == {one.run_id for one in part}
    assert all(run.started >= T0 for run in found)


def test_a_tree_is_summed_up_in_its_root() -> None:
    (whole,) = MemoryHistory(story()).find(RunFilter(trees=True))
    assert (whole.run_id, whole.outcome, whole.dead, whole.ended, whole.attempts) == (
        ROOT,
        "stopped",
        True,
        T0 + 0.9,
        3,
    )


def test_a_tree_has_not_ended_while_a_child_runs() -> None:
    (whole,) = trees(summaries(story()[:-1]))
    assert (whole.outcome, whole.ended) == ("", 0.0)


@pytest.mark.parametrize(
    "wanted, number",
    [
        (RunFilter(id="msg.*"), 1),
        (RunFilter(runs=(ROOT,)), 1),
        (RunFilter(runs=(ROOT[:10],)), 2),
        (RunFilter(runs=("zz",)), 0),
        (RunFilter(group="qq:1:group-7"), 2),
        (RunFilter(group="group-7"), 2),
        (RunFilter(group="7"), 2),
        (RunFilter(group="1"), 0),
        (RunFilter(outcome="stopped"), 1),
        (RunFilter(outcome="dead"), 1),
        (RunFilter(outcome="running"), 0),
        (RunFilter(since=T0 + 0.1), 1),
        (RunFilter(until=T0 + 0.1), 1),
        (RunFilter(limit=1), 1),
        (RunFilter(limit=0), 0),
        (RunFilter(trees=True), 1),
    ],
)
def test_runs_are_found_by(wanted: RunFilter, number: int) -> None:
    assert len(MemoryHistory(story()).find(wanted)) == number


@given(st.integers(0, 12), st.integers(0, 4_000_000_000_000))
def test_the_beginning_of_an_id_tells_the_earliest_time_it_stands_for(length: int, ms: int) -> None:
    run = timed_id(ms / 1000, 7)
    assert int(id_time(run) * 1000 + 0.5) == int(ms / 1000 * 1000)
    assert id_time(run[:length]) <= id_time(run)
    assert id_time("no id!") == 0.0


@lumia.pipe.on("msg")
def answers(content: lumia.Box[Any]) -> None:
    lumia.event.start("msg.send", lumia.Box.any("hi"))


def test_the_memory_transports_history_finds_a_message_by_its_own_id() -> None:
    with Bot(answers) as bot:
        bot.send("one", message_id="m-1")
        wanted = bot.send("two", message_id="m-2", group="7")
        history = bot.transport.history()
        assert [run.run_id for run in history.find(RunFilter(message="m-2"))] == [wanted.run_id]
        assert [run.run_id for run in history.find(RunFilter(group="7", trees=True))] == [wanted.run_id]
        kinds = [(one.id, one.kind) for one in history.entries(wanted.run_id)]
        assert kinds == [("msg", "start"), ("msg", "step"), ("msg.send", "start"), ("msg.send", "end"), ("msg", "end")]


def test_what_a_journal_says_besides_runs_is_passed_over() -> None:
    gap = JournalEntry("gap", "", detail={"lost": 3})
    assert summaries([gap, *story()]) == summaries(story())
    assert summaries([replace(story()[0], kind="later")])[0].outcome == ""


def test_of_runs_that_reached_the_journal_in_one_millisecond_the_younger_id_comes_first() -> None:
    old, young = timed_id(T0, 9), timed_id(T0 + 0.006, 1)
    runs = [RunSummary(run_id, run_id, "pipe", "msg", started=T0) for run_id in (old, young)]
    child = RunSummary("0child", young, "event", "msg.send", started=T0)
    assert [run.run_id for run in newest_first([*runs, child])] == ["0child", young, old]
    assert newest_first([child, *runs[::-1]]) == newest_first([*runs, child])
