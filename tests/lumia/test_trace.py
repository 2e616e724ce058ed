"""A trace puts a run, what it caused and where it waited into one tree with times relative to its start."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.history import RunSummary, Usage
from lumia.ids import child_id
from lumia.trace import MAX_DEPTH, Live, build
from tests.support.stories import T0, Story, answered


def test_a_tree_has_its_steps_calls_and_children_in_their_places() -> None:
    story, run = answered()
    root = build(story.entries).run
    assert [(step.handler, step.attempt, step.outcome) for step in root.steps] == [
        ("heartflow.filter_message", 1, "next"), ("heartflow.think", 1, "retry"), ("heartflow.think", 2, "stop"),
    ]  # fmt: skip
    assert [effect.outcome for step in root.steps for effect in step.effects] == ["done", "replayed"]
    assert [(child.id, child.relation, child.after) for child in root.children] == [
        ("msg.send, dest=1.console.group-7", "child", 1), ("memory.update", "child", 1),
    ]  # fmt: skip
    assert root.children[1].dead == "ValueError: no topic" and root.run_id == run


def test_where_a_run_waited_is_told_apart() -> None:
    story, _ = answered()
    waits = [(wait.kind, wait.at, wait.ms) for step in build(story.entries).run.steps for wait in step.waits]
    assert waits == [
        ("lane", 0.0, 400.0), ("queue", 400.0, 12.0), ("handover", 415.0, 5.0), ("backoff", 1340.0, 1001.0),
        ("queue", 2341.0, 3.0),
    ]  # fmt: skip


def test_a_model_call_is_paid_once_however_often_it_is_tried() -> None:
    trace = build(answered()[0].entries)
    assert trace.usage == Usage(812, 40, 0.00042)
    assert (trace.ms, trace.ended, trace.started) == (2471.0, True, T0)


@given(st.randoms())
def test_the_order_in_which_entries_are_read_changes_nothing(chance: random.Random) -> None:
    story, run = answered()
    shuffled = list(story.entries)
    chance.shuffle(shuffled)
    assert build(shuffled, mark=run) == build(story.entries, mark=run)


@given(st.sets(st.integers(0, 18), min_size=1))
def test_whatever_the_journal_still_holds_can_be_drawn(kept: set[int]) -> None:
    entries = answered()[0].entries
    part = [entry for number, entry in enumerate(entries) if number in kept]
    if part:
        shown = build(part)
        assert {run.run_id for run in shown.run.walk()} >= {entry.run_id for entry in part}


@given(st.sets(st.integers(0, 18), min_size=1))
def test_a_steps_waits_never_overlap_and_end_where_it_begins(kept: set[int]) -> None:
    entries = [entry for number, entry in enumerate(answered()[0].entries) if number in kept]
    for run in build(entries).run.walk() if entries else ():
        for step in run.steps:
            places = [(wait.at, wait.at + wait.ms) for wait in step.waits]
            assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(places))
            assert all(end <= step.at + 1e-6 for _, end in places)


def test_a_pause_that_a_step_asked_for_is_a_delay_and_what_is_left_of_it_too() -> None:
    story = Story()
    run = story.start("said")
    story.step(run, 0, "a.one", 5, next_delay=1.5)
    story.step(run, 1, "a.two", 1520, took=5, queued=4.0).end(run, 1520)
    waits = build(story.entries).run.steps[1].waits
    assert [(wait.kind, wait.at, wait.ms) for wait in waits] == [
        ("delay", 5.0, 1500.0), ("queue", 1505.0, 4.0), ("handover", 1509.0, 6.0),
    ]  # fmt: skip


def test_a_retry_of_one_subscriber_is_told_as_such() -> None:
    story = Story()
    run = story.start("news")
    story.step(run, 0, "a.one", 5, "failed").step(run, 1, "a.two", 6).end(run, 6)
    again = story.child(run, 0, "retry", "news", 5, delay=1.0)
    story.step(again, 0, "a.one", 1010, attempt=2, queued=4.0).end(again, 1010)
    (child,) = build(story.entries).run.children
    assert (child.relation, child.after, [wait.kind for wait in child.steps[0].waits]) == (
        "retry", 0, ["backoff", "queue"],
    )  # fmt: skip


def test_a_delay_is_told_from_the_wait_for_the_lane() -> None:
    for key, kinds in (("qq:1:g-7", ["delay", "lane", "queue"]), ("", ["delay", "queue", "handover"])):
        story = Story()
        run = story.start(key=key, delay=2.0)
        story.step(run, 0, "a.b", 3001, queued=500.0)
        waits = build(story.entries).run.steps[0].waits
        assert [wait.kind for wait in waits] == kinds
        assert sum(wait.ms for wait in waits) == 3000.0 and waits[0].ms == 2000.0


def test_a_run_that_was_set_free_is_shown_where_it_began() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.b", 5).end(run, 5)
    free = RunSummary(child_id(run, 0, 0), child_id(run, 0, 0), "event", "remind", "", f"{run}/0", started=T0 + 0.005)
    other = RunSummary("x", "x", "event", "else", "", "unknown/0")
    trace = build(story.entries, detached=[free, other])
    (child,) = trace.run.children
    assert (child.relation, child.id, child.at, trace.ended) == ("detached", "remind", 5.0, True)


def test_a_run_that_goes_on_tells_where_it_is() -> None:
    story = Story()
    run = story.start(key="qq:1:group-7")
    trace = build(story.entries, live={run: Live("waiting", "another")}, now=T0 + 3)
    assert (trace.run.state, trace.run.waited, trace.ms, trace.ended) == ("waiting", 3000.0, 3000.0, False)
    assert build(story.entries).run.state == "unknown"


def test_calls_of_a_try_that_was_never_committed_are_shown() -> None:
    story = Story()
    run = story.start()
    story.effect(run, 0, "paid", 20)
    (step,) = build(story.entries).run.steps
    assert (step.outcome, step.reason, [effect.key for effect in step.effects]) == ("", "not committed", ["paid"])


def test_a_tree_without_end_is_cut_in_depth_but_loses_no_run() -> None:
    story = Story()
    run = first = story.start()
    for _ in range(5 * MAX_DEPTH):
        run = story.child(run, 0, 0, "again", 1)
    shown = list(build(story.entries).run.walk())
    assert len(shown) == 5 * MAX_DEPTH + 1 and shown[0].run_id == first


def test_no_entries_make_no_trace() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build([])


def test_a_lost_try_is_drawn_from_where_it_could_begin() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.b", 8000, "lost", took=0.0, reason="its worker died")
    story.step(run, 0, "a.b", 9000, "lost", took=0.0, attempt=2, reason="hung: not done in time")
    story.step(run, 0, "a.b", 9030, took=10.0, attempt=3, queued=20.0).end(run, 9030)
    steps = build(story.entries).run.steps
    assert [(step.at, step.ms, step.exact) for step in steps] == [
        (0.0, 8000.0, False), (8000.0, 1000.0, False), (9020.0, 10.0, True),
    ]  # fmt: skip


def test_a_lost_try_of_a_delayed_run_begins_after_the_delay() -> None:
    story = Story()
    run = story.start(delay=5.0)
    story.step(run, 0, "a.b", 8000, "lost", took=0.0)
    assert [(step.at, step.ms) for step in build(story.entries).run.steps] == [(5000.0, 3000.0)]


def test_what_operators_did_is_told_with_its_time() -> None:
    story = Story()
    run = story.start()
    story.tell("cancel", run, 500, reason="wrong group")
    story.tell("dead", run, 900, step=0, handler="a.b", reason="ValueError: no").end(run, 900, "failed")
    story.tell("dead", run, 7_200_900, step=0, handler="a.b", outcome="retried", reason="as run 01xyz")
    told = build(story.entries)
    assert [(act.kind, act.at, act.reason, act.run) for act in told.run.acts] == [
        ("cancel", 500.0, "wrong group", ""), ("retried", 7_200_900.0, "", "01xyz"),
    ]  # fmt: skip
    assert (told.run.dead, told.ms, told.ended) == ("ValueError: no", 900.0, True)


def test_a_retry_names_the_run_it_goes_on_from() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.b", 5, cause="retry/01abc").end(run, 5)
    assert build(story.entries).run.retry_of == "01abc"
