"""The in-memory transport where it is alone: bounds, threads, and answers that are the same when asked again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import lumia
from lumia import inmemory
from lumia.dead import DeadFilter, DeadLetter
from lumia.errors import RunTimeoutError, StaleClaimError, StaleRoutesError, StoreError, UnknownRunError
from lumia.inmemory import InMemoryTransport
from lumia.journal import JournalEntry
from lumia.ports import Claim, Commit, EffectUse, Limits, RunRequest, StepRecord, StoreOp
from lumia.routes import Plan, PlanStep, Route, RouteTable
from lumia.testing import Bot, ManualClock
from tests.support.wait import until

Boxed = lumia.Box[Any]


def plan(*queues: str) -> Plan:
    made = [PlanStep(f"p.{n}", "pipe", "1", queue, None, False, lumia.Retry()) for n, queue in enumerate(queues)]
    return Plan.of(made)


def request(run_id: str, *queues: str, **options: Any) -> RunRequest:
    return RunRequest(run_id, "pipe", "it", plan(*(queues or ("default",))), "box", root_id=run_id, **options)


def done(claim: Claim, action: str = "end", **options: Any) -> Commit:
    options = {"outcome": "done"} | options if action == "end" else options
    return Commit(action, StepRecord("p.0", "next"), JournalEntry("step", claim.run_id), **options)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def transport(clock: ManualClock) -> Iterator[InMemoryTransport]:
    made = InMemoryTransport(Limits(), clock)
    yield made
    made.close()


def taken(transport: InMemoryTransport, queue: str | None = None) -> Claim:
    claim = transport.take(queue)
    assert claim is not None
    return claim


def state(transport: InMemoryTransport, run_id: str) -> tuple[str, str]:
    record = transport.run(run_id)
    assert record is not None
    return record.state, record.outcome


# --- claims and commits


def test_a_commit_that_is_sent_again_gets_the_first_answer_again(transport: InMemoryTransport) -> None:
    transport.start([request("a", "default", "default")])
    claim = taken(transport)
    commit = done(claim, "next", index=1, fuse=True, store=(StoreOp("incr", "n", "1"),))
    fused = transport.commit(claim, commit)
    assert fused is not None and (fused.step, fused.attempt) == (1, 1)
    assert transport.commit(claim, commit) == fused
    assert transport.read("n") == ("value", "1")


def test_a_batched_commit_that_is_sent_again_takes_no_second_run(transport: InMemoryTransport) -> None:
    transport.start([request("a")])
    transport.start([request("b")])
    transport.start([request("c")])
    claim = taken(transport)
    follower = transport.commit(claim, done(claim, batch=True))
    assert follower is not None and follower.run_id == "b"
    assert transport.commit(claim, done(claim, batch=True)) == follower
    assert taken(transport).run_id == "c"


@pytest.mark.parametrize(
    "stale", [{"token": 0}, {"step": 1}], ids=["an older token", "another step"]
)  # fmt: skip
def test_a_claim_that_was_lost_commits_nothing(transport: InMemoryTransport, stale: dict[str, Any]) -> None:
    transport.start([request("a", "default", "default")])
    claim = taken(transport)
    with pytest.raises(StaleClaimError, match="run a"):
        transport.commit(replace(claim, **stale), done(claim, store=(StoreOp("set", "k", "1"),)))
    assert transport.read("k") == ("none", None)
    assert transport.commit(claim, done(claim)) is None


def test_a_step_that_was_handed_back_costs_no_try_and_is_counted(
    transport: InMemoryTransport, clock: ManualClock
) -> None:
    transport.start([request("a")])
    for times in range(3):
        claim = taken(transport)
        assert (claim.attempt, claim.handbacks) == (1, times)
        assert transport.commit(claim, done(claim, "handback", delay=5)) is None
        assert transport.take() is None
        clock.move(5)
    record = transport.run("a")
    assert record is not None and record.steps == ()


def test_each_queue_is_served_apart(transport: InMemoryTransport) -> None:
    transport.start([request("a", "slow")])
    transport.start([request("b", "default", priority=9)])
    assert transport.take("nobody") is None
    assert taken(transport, "default").run_id == "b"
    assert taken(transport, "slow").run_id == "a"
    assert transport.take() is None


def test_whatever_is_most_urgent_is_taken_first_from_any_queue(transport: InMemoryTransport) -> None:
    transport.start([request("a", "slow", priority=6)])
    transport.start([request("b", "default", priority=9)])
    transport.start([request("c", "quick", priority=0)])
    assert [taken(transport).run_id for _ in range(3)] == ["c", "a", "b"]


def test_a_retry_of_an_inline_run_is_claimed_again_at_once(transport: InMemoryTransport) -> None:
    transport.start([request("a", arc=True)])
    assert transport.take() is None
    claim = transport.begin_inline("a")
    again = transport.commit(claim, done(claim, "retry", delay=99))
    assert again is not None and (again.attempt, again.arc) == (2, True)
    with pytest.raises(UnknownRunError):
        transport.begin_inline("nobody")


def test_what_a_commit_may_not_write_is_refused_before_anything_is_written(transport: InMemoryTransport) -> None:
    transport.start([request("a")])
    transport.write([StoreOp("append", "list", "1", keep=5)])
    claim = taken(transport)
    ops = (StoreOp("set", "new", "1"), StoreOp("incr", "list", "1"))
    with pytest.raises(StoreError, match="incr on a list"):
        transport.commit(claim, done(claim, store=ops, children=(request("child"),)))
    assert transport.read("new") == ("none", None) and transport.run("child") is None
    assert state(transport, "a") == ("claimed", "")
    assert transport.commit(claim, done(claim)) is None


@pytest.mark.parametrize(
    "before, ops, value",
    [
        (StoreOp("set", "k", "1"), [StoreOp("delete", "k"), StoreOp("append", "k", "2", keep=9)], ("list", ["2"])),
        (StoreOp("append", "k", "1", keep=9), [StoreOp("set", "k", "1"), StoreOp("incr", "k", "2")], ("value", "3")),
        (StoreOp("set", "k", '"x"'), [StoreOp("delete", "k"), StoreOp("incr", "k", "2")], ("value", "2")),
        (StoreOp("set", "k", '"x"'), [StoreOp("set", "k", "-5"), StoreOp("incr", "k", "2")], ("value", "-3")),
        (StoreOp("incr", "k", "1"), [StoreOp("incr", "k", "2"), StoreOp("incr", "k", "3")], ("value", "6")),
        (
            StoreOp("incr", "k", "1"),
            [StoreOp("delete", "k"), StoreOp("put", "k", "1", field="f")],
            ("hash", {"f": "1"}),
        ),
    ],
)
def test_writes_are_judged_by_what_those_before_them_leave(
    transport: InMemoryTransport, before: StoreOp, ops: list[StoreOp], value: tuple[str, Any]
) -> None:
    transport.write([before])
    transport.write(ops)
    assert transport.read("k") == value


@pytest.mark.parametrize(
    "ops",
    [
        [StoreOp("set", "k", "1"), StoreOp("append", "k", "2", keep=9)],
        [StoreOp("set", "k", '"x"'), StoreOp("incr", "k", "2")],
        [StoreOp("append", "k", "1", keep=9), StoreOp("put", "k", "1", field="f")],
    ],
)
def test_writes_that_would_not_fit_each_other_are_refused(transport: InMemoryTransport, ops: list[StoreOp]) -> None:
    with pytest.raises(StoreError, match="another key"):
        transport.write(ops)
    assert transport.read("k") == ("none", None)


# --- starting


def test_plans_of_an_older_table_are_refused(transport: InMemoryTransport) -> None:
    table = transport.publish(RouteTable(0, (Route("pipe", "it", "p.0", "p"),), (), {}))
    assert transport.routes() == table
    transport.start([request("a")], routes=table.number)
    with pytest.raises(StaleRoutesError, match=str(table.number)):
        transport.start([request("b")], routes=table.number + 1)
    assert transport.run("b") is None


def test_publishing_what_is_published_changes_no_number(transport: InMemoryTransport) -> None:
    table = transport.publish(RouteTable(0, (), (), {}))
    assert transport.publish(replace(table, number=0)) == table
    assert transport.publish(replace(table, plugins={"p": "2"})).number > table.number


def test_a_start_sent_again_starts_nothing_twice(transport: InMemoryTransport) -> None:
    for _ in range(3):
        (started,) = transport.start([request("a", dedup="once")])
        assert (started.run_id, started.duplicate) == ("a", False)
    (other,) = transport.start([request("b", dedup="once")])
    assert (other.run_id, other.duplicate) == ("a", True)
    assert taken(transport).run_id == "a" and transport.take() is None


def test_a_dedup_text_is_free_again_after_its_window(transport: InMemoryTransport, clock: ManualClock) -> None:
    transport.limits = Limits(dedup_window=60)
    transport.start([request("a", dedup="once")])
    clock.move(-3600)
    clock.move(59)
    assert transport.start([request("b", dedup="once")])[0].run_id == "a"
    clock.move(1)
    assert transport.start([request("c", dedup="once")])[0].run_id == "c"
    transport.limits = Limits(dedup_window=1)
    transport.start([request("d", dedup="twice")])
    clock.move(2)
    assert transport.start([request("e", dedup="twice")])[0].run_id == "e"


def test_dedup_texts_are_forgotten(transport: InMemoryTransport, clock: ManualClock) -> None:
    transport.limits = Limits(dedup_window=60)
    for n in range(100):
        transport.start([request(f"run {n}", dedup=f"text {n}")])
        clock.move(10)
    assert len(transport._dedup) <= 7


def test_a_duplicate_child_is_left_out_and_its_parent_does_not_wait_for_it(transport: InMemoryTransport) -> None:
    transport.start([request("first", dedup="once")])
    transport.start([request("a")])
    taken(transport)
    claim = taken(transport)
    child = request("child", dedup="once", parent="a")
    transport.commit(claim, done(claim, children=(child,)))
    assert transport.run("child") is None
    assert state(transport, "a") == ("finished", "done")


# --- lanes, trees, ends


def test_a_lane_is_let_go_when_the_tree_has_ended(transport: InMemoryTransport) -> None:
    transport.start([request("a", key="lane")])
    transport.start([request("b", key="lane")])
    transport.start([request("c", key="lane")])
    claim = taken(transport)
    child = replace(request("child", key="lane", parent="a", inside=True), root_id="a")
    transport.commit(claim, done(claim, children=(child,)))
    assert (state(transport, "a"), state(transport, "b")) == (("ended", "done"), ("waiting", ""))
    transport.cancel("b", "no longer wanted")
    last = taken(transport)
    assert last.run_id == "child"
    transport.commit(last, done(last))
    assert state(transport, "a") == ("finished", "done")
    assert taken(transport).run_id == "c"
    assert [(one.run, one.waiting) for one in transport.lanes().lanes] == [("c", 0)]


def test_children_inside_a_lane_run_one_by_one_and_cancelled_ones_are_passed_over(
    transport: InMemoryTransport,
) -> None:
    transport.start([request("a", key="lane")])
    claim = taken(transport)
    children = tuple(replace(request(f"child {n}", key="lane", parent="a", inside=True), root_id="a") for n in range(4))
    transport.commit(claim, done(claim, children=children))
    first = taken(transport)
    assert first.run_id == "child 0" and transport.take() is None
    transport.cancel("child 1", "no longer wanted")
    transport.cancel("child 2", "no longer wanted")
    transport.commit(first, done(first))
    last = taken(transport)
    assert last.run_id == "child 3"
    transport.commit(last, done(last))
    assert state(transport, "a") == ("finished", "done")


def test_a_retry_keeps_its_place_in_the_lane(transport: InMemoryTransport, clock: ManualClock) -> None:
    transport.start([request("a", key="lane")])
    transport.start([request("b", key="lane")])
    claim = taken(transport)
    transport.commit(claim, done(claim, "retry", delay=5))
    assert transport.take() is None
    clock.move(5)
    assert taken(transport).run_id == "a" and transport.take() is None


def test_the_lane_goes_on_when_the_delayed_retry_of_its_run_is_cancelled(transport: InMemoryTransport) -> None:
    transport.start([request("a", key="lane")])
    transport.start([request("b", key="lane")])
    claim = taken(transport)
    transport.commit(claim, done(claim, "retry", delay=5))
    assert transport.cancel("a", "no longer wanted")
    assert taken(transport).run_id == "b"


@pytest.mark.parametrize("action", ["next", "retry", "handback"])
def test_a_run_cancelled_while_it_is_executed_ends_at_its_next_commit(
    transport: InMemoryTransport, action: str
) -> None:
    transport.start([request("a", "default", "default")])
    claim = taken(transport)
    assert transport.cancel("a", "stop\x00it\ud800")
    assert state(transport, "a") == ("claimed", "")
    assert transport.commit(claim, done(claim, action, index=1, fuse=True, batch=True)) is None
    record = transport.run("a")
    assert record is not None and (record.outcome, record.reason) == ("cancelled", "stop␀it?")
    assert not transport.cancel("a", "again")


def test_a_run_that_is_cancelled_in_its_last_step_ends_as_cancelled(transport: InMemoryTransport) -> None:
    transport.start([request("a")])
    claim = taken(transport)
    transport.cancel("a", "")
    transport.commit(claim, done(claim))
    assert state(transport, "a") == ("finished", "cancelled")


def test_a_cancelled_run_is_not_executed(transport: InMemoryTransport, clock: ManualClock) -> None:
    transport.start([request("a")])
    transport.start([request("late", delay=5)])
    assert transport.cancel("a", "") and transport.cancel("late", "")
    clock.move(5)
    assert transport.take() is None and transport.next_due() is None
    record = transport.run("a")
    assert record is not None and record.reason == "cancelled"
    with pytest.raises(UnknownRunError):
        transport.cancel("nobody", "")


def test_waiting_for_an_unknown_run_or_too_long_is_an_error(transport: InMemoryTransport) -> None:
    with pytest.raises(UnknownRunError):
        transport.wait("nobody", 1)
    transport.start([request("a")])
    with pytest.raises(RunTimeoutError, match="run a has not ended within 0 s"):
        transport.wait("a", 0)


# --- bounds


def ended(transport: InMemoryTransport, run_id: str) -> None:
    transport.start([request(run_id)])
    claim = taken(transport)
    transport.commit(claim, done(claim))


def test_ended_runs_and_their_effects_are_kept_for_the_time_that_is_set(
    transport: InMemoryTransport, clock: ManualClock
) -> None:
    transport.limits = Limits(keep_runs=60)
    transport.start([request("a")])
    claim = taken(transport)
    transport.begin_effect(claim, EffectUse("a", "0:pay", "retry", JournalEntry("effect", "a")))
    transport.commit(claim, done(claim))
    assert transport.effect("a", "0:pay") is not None
    clock.move(61)
    transport.start([request("still running")])
    assert transport.run("a") is not None
    taken(transport)
    ended(transport, "b")
    assert transport.run("a") is None and transport.effect("a", "0:pay") is None
    assert transport.run("b") is not None and transport.run("still running") is not None


def test_ended_runs_are_bounded_in_number(transport: InMemoryTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inmemory, "MAX_FINISHED", 3)
    for n in range(9):
        ended(transport, f"run {n}")
    assert sorted(transport._runs) == ["run 6", "run 7", "run 8"]


def test_the_journal_keeps_its_newest_entries(transport: InMemoryTransport) -> None:
    for n in range(9):
        ended(transport, f"run {n}")
    whole = transport.tail("0", 0, 99)
    transport.limits = Limits(journal_bytes=sum(len(entry.dump()) for entry in whole[-4:]))
    ended(transport, "run 9")
    kept = transport.tail("0", 0, 99)
    assert 1 < len(kept) <= 4 and kept[-1].kind == "end" and kept[-1].run_id == "run 9"


def test_dead_letters_are_told_newest_first(transport: InMemoryTransport) -> None:
    for n in range(3):
        transport.start([request(f"run {n}")])
        claim = taken(transport)
        letter = DeadLetter(claim.run_id, 0, "p.0", "it", "", "broken", 1, "box", 0.0)
        transport.commit(claim, done(claim, outcome="failed", dead=letter))
    assert [letter.run_id for letter in transport.dead(DeadFilter(limit=2))] == ["run 2", "run 1"]
    entries = transport.tail("0", 0, 99)[:4]
    assert [entry.kind for entry in entries] == ["start", "step", "dead", "end"]
    assert (entries[2].handler, entries[2].reason, entries[2].attempt, entries[2].step) == ("p.0", "broken", 1, 0)


# --- threads


@pytest.fixture
def serving() -> Iterator[Callable[..., Bot]]:
    bots: list[Bot] = []

    def open_one(*what: Any) -> Bot:
        bots.append(Bot(*what).__enter__())
        bots[-1].transport.serve(bots[-1].runtime, threads=2)
        return bots[-1]

    yield open_one
    for bot in bots:
        bot.__exit__(None, None, None)


@lumia.pipe.on("it")
def counts(content: Boxed) -> None:
    lumia.store.incr("n")


def test_delayed_runs_are_served_by_waiting_threads(serving: Callable[..., Bot]) -> None:
    bot = serving(counts)
    runs = [lumia.pipe.start("it", lumia.Box.any(n), delay=0.01 * n) for n in range(5)]
    assert {bot.transport.wait(run, 10).outcome for run in runs} == {"done"}
    assert lumia.store.of("test").get("n") == 5


def test_a_commit_that_breaks_does_not_end_the_thread(
    serving: Callable[..., Bot], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bot = serving(counts)
    commit = bot.transport.commit
    broken: list[str] = []

    def breaks(claim: Claim, what: Commit) -> Any:
        if len(broken) < 4:
            broken.append(claim.run_id)
            raise OSError("the disk is full")
        return commit(claim, what)

    monkeypatch.setattr(bot.transport, "commit", breaks)
    with caplog.at_level(logging.ERROR, "lumia"):
        for n in range(4):
            lumia.pipe.start("it", lumia.Box.any(n))
        until(lambda: len(broken) == 4)
        run_id = lumia.pipe.start("it", lumia.Box.any("last"))
        assert bot.transport.wait(run_id, 10).outcome == "done"
    assert "the other runs go on" in caplog.text


def test_closing_ends_the_threads_and_who_listens() -> None:
    with Bot(counts) as bot:
        bot.transport.serve(bot.runtime, threads=2)
        health = bot.transport.health()
        assert (health.ok, len(health.workers)) == (True, 2)
        threads = list(bot.transport._threads)
    assert not any(thread.is_alive() for thread in threads)
    assert not bot.transport.health().ok
    assert bot.transport.tail("$", 60, 10) == []


def test_the_store_goes_along_to_another_transport_with_the_time_its_values_have_left() -> None:
    clock = ManualClock()
    before, after = InMemoryTransport(clock=clock), InMemoryTransport(clock=clock)
    before.write(
        [StoreOp("set", "a", value='"x"'), StoreOp("set", "b", value="1", ttl=60.0), StoreOp("incr", "c", value="2")]
    )
    clock.move(50)
    after.load_store(json.loads(json.dumps(before.dump_store())))
    assert [after.read(key) for key in "abc"] == [("value", '"x"'), ("value", "1"), ("value", "2")]
    clock.move(11)
    assert after.read("b") == ("none", None)
    assert set(after.dump_store()) == {"a", "c"}
