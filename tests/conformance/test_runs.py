"""Lanes, children, deduplication, delays, cancelling and the store, on every transport."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

import lumia
from lumia.errors import ArcError, RunTimeoutError, StaleClaimError, StoreError, UnknownRunError
from lumia.ids import LENGTH
from lumia.ports import RunRequest, StoreOp
from lumia.routes import RouteTable
from lumia.system import new_id
from tests.conformance.conftest import Probe
from tests.support.wait import until


def test_a_lane_serves_one_tree_at_a_time_in_order(bot: Probe, gate: Path) -> None:
    key = f"group {bot.scope}"
    runs = [lumia.pipe.start("lane", bot.content(n=n, until=str(gate)), key=key) for n in range(12)]
    gate.touch()
    for run in runs:
        bot.wait(run)
    assert bot.seen == [[n, what] for n in range(12) for what in ("begin", "child")]


def test_lanes_do_not_wait_for_each_other(bot: Probe, gate: Path) -> None:
    slow = lumia.pipe.start("lane", bot.content(n="slow", until=str(gate)), key=f"{bot.scope} a")
    quick = lumia.pipe.start("lane", bot.content(n="quick"), key=f"{bot.scope} b")
    bot.wait(quick)
    assert bot.result(slow).outcome is None
    gate.touch()
    bot.wait(slow)


def test_children_in_a_lane_run_one_at_a_time_in_order_without_waiting_for_their_parent(
    bot: Probe, tmp_path: Path
) -> None:
    result = bot.pipe("parts", options={"key": f"lane {bot.scope}"}, file=str(tmp_path / "first part"))
    assert result.outcome == "done"
    assert [what[1] for what in bot.seen if what[0] == "part"] == list(range(8))
    assert ["parent saw a part", True] in bot.seen


def test_waiting_covers_the_whole_tree(bot: Probe) -> None:
    result = bot.pipe("families", depth=3)
    assert sorted(bot.seen) == [["depth", 0]] * 8 + [["depth", 1]] * 4 + [["depth", 2]] * 2 + [["depth", 3]]
    assert len(result.steps) == 15


def test_an_attached_child_may_not_ask_for_another_lane(bot: Probe) -> None:
    result = bot.pipe("crossing", options={"key": f"lane {bot.scope}"})
    assert result.outcome == "failed" and "detach=True" in result.reason


def test_a_detached_child_goes_its_own_way(bot: Probe) -> None:
    result = bot.pipe("detaching", options={"key": f"lane {bot.scope}"})
    assert result.outcome == "done"
    until(lambda: len(bot.seen) == 4)


def test_a_second_start_under_the_same_text_returns_the_first_run(bot: Probe) -> None:
    dedup = f"webhook {bot.scope}"
    first = lumia.pipe.start("order", bot.content(), dedup=dedup, also=[("news", bot.content(text="twin"))])
    second = lumia.pipe.start("order", bot.content(), dedup=dedup, also=[("news", bot.content(text="twin"))])
    assert first == second
    bot.wait(first)
    until(lambda: len(bot.seen) == 6)
    assert sorted(map(str, bot.seen)).count("['first']") == 1


def test_a_start_that_is_sent_again_starts_nothing_new(bot: Probe) -> None:
    plan = bot.runtime.routes.plan("pipe", "order")
    run_id = new_id()
    request = RunRequest(run_id, "pipe", "order", plan, bot.content().dump(bot.runtime.secret), root_id=run_id)
    answers = [bot.runtime.transport.start([request]) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    bot.wait(run_id)
    assert len(bot.seen) == 4


def test_a_delayed_run_waits_for_its_time(bot: Probe) -> None:
    run = lumia.pipe.start("order", bot.content(), delay=0.4)
    with pytest.raises(RunTimeoutError):
        lumia.runs.wait(run, timeout=0.05)
    result = bot.wait(run)
    assert result.ms >= 400


def test_a_waiting_run_can_be_cancelled(bot: Probe) -> None:
    run = lumia.pipe.start("order", bot.content(), delay=3600)
    assert bot.runtime.transport.cancel(run, "changed my mind")
    result = bot.wait(run)
    assert (result.outcome, result.reason, bot.seen) == ("cancelled", "changed my mind", [])
    assert not bot.runtime.transport.cancel(run, "again")


def test_a_cancelled_run_in_a_lane_lets_the_next_one_in(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    slow = lumia.pipe.start("lane", bot.content(n=1, until=str(gate)), key=key)
    middle = lumia.pipe.start("lane", bot.content(n=2), key=key)
    after = lumia.pipe.start("lane", bot.content(n=3), key=key)
    assert bot.runtime.transport.cancel(middle, "no longer wanted")
    gate.touch()
    assert [bot.wait(run).outcome for run in (slow, middle, after)] == ["done", "cancelled", "done"]
    assert [n for n, _ in bot.seen] == [1, 1, 3, 3]


def test_store_writes_are_seen_by_their_step_and_kept_by_its_commit(bot: Probe) -> None:
    bot.pipe("counting")
    bot.pipe("counting")
    store = lumia.store.of("probe")
    assert store.get("n", scope=bot.scope) == 4
    assert store.get("last", scope=bot.scope) == {"at": 4}
    assert store.fields("fields", scope=bot.scope) == {"a": 1, "b": 10}


def test_a_store_conflict_writes_nothing_of_the_step(bot: Probe) -> None:
    store = lumia.store.of("probe")
    store.set("text", "not a number", scope=bot.scope)
    result = bot.pipe("conflicting")
    assert result.outcome == "failed" and "no counter" in result.reason
    assert store.items("fine", scope=bot.scope) == []


def test_direct_writes_are_all_or_none(bot: Probe) -> None:
    store = lumia.store.of("probe")
    store.append("list", 1, scope=bot.scope)
    name = f"probe/{bot.scope}/"
    with pytest.raises(StoreError):
        bot.runtime.transport.write([StoreOp("set", name + "new", "1"), StoreOp("incr", name + "list", "1")])
    assert store.get("new", scope=bot.scope) is None


def test_writes_are_looked_at_one_after_the_other_before_any_is_made(bot: Probe) -> None:
    store = lumia.store.of("probe")
    store.put("f", "text", "no number", scope=bot.scope)
    store.incr("f", 4, field="n", scope=bot.scope)
    name = f"probe/{bot.scope}/f"
    for ops in ([StoreOp("add", name, "1", "n"), StoreOp("add", name, "1", "text")],
                [StoreOp("put", name, '"x"', "n"), StoreOp("add", name, "1", "n")],
                [StoreOp("set", name, "1"), StoreOp("add", name, "1", "n")]):  # fmt: skip
        with pytest.raises(StoreError):
            bot.runtime.transport.write(ops)
        assert store.fields("f", scope=bot.scope) == {"text": "no number", "n": 4}
    bot.runtime.transport.write([StoreOp("delete", name), StoreOp("add", name, "1", "text")])
    assert store.fields("f", scope=bot.scope) == {"text": 1}


def test_store_values_expire(bot: Probe) -> None:
    store = lumia.store.of("probe")
    store.incr("many", field="a", scope=bot.scope, ttl=0.15)
    store.put("put", "a", 1, scope=bot.scope, ttl=0.15)
    until(lambda: store.fields("many", scope=bot.scope) == {} == store.fields("put", scope=bot.scope))
    store.set("brief", [1, {"a": None}], scope=bot.scope, ttl=0.15)
    assert store.get("brief", scope=bot.scope) == [1, {"a": None}]
    until(lambda: store.get("brief", "gone", scope=bot.scope) == "gone")


def test_lists_keep_their_newest_items(bot: Probe) -> None:
    store = lumia.store.of("probe")
    for n in range(10):
        store.append("short", n, scope=bot.scope, keep=3)
    assert store.items("short", scope=bot.scope) == [7, 8, 9]
    assert store.items("short", scope=bot.scope, last=1) == [9]
    with pytest.raises(StoreError, match="holds a list"):
        store.get("short", scope=bot.scope)


def test_unknown_runs_are_named(bot: Probe) -> None:
    assert lumia.runs.result("nonsense") is None
    with pytest.raises(UnknownRunError, match="nonsense"):
        lumia.runs.wait("nonsense", timeout=1)


def test_a_resource_is_shared_inline_after_the_commit_and_retried_in_memory(bot: Probe, tmp_path: Path) -> None:
    result = bot.pipe("opening", file=str(tmp_path / "shared"))
    assert result.outcome == "done"
    assert bot.seen == [["closed before the commit", False], ["in the file", 2, "by", True]]
    assert [step.outcome for step in result.steps] == ["stop", "retry", "next", "stop"]


def test_a_resource_is_refused_where_no_handler_of_this_process_takes_it(bot: Probe) -> None:
    with tempfile.TemporaryFile() as file, pytest.raises(ArcError, match="another queue"):
        lumia.pipe.start("elsewhere", lumia.Box.any({"file": file}))


def test_a_stale_result_changes_nothing(bot: Probe) -> None:
    from lumia.journal import JournalEntry
    from lumia.ports import Claim, Commit, StepRecord

    result = bot.pipe("order")
    plan = bot.runtime.routes.plan("pipe", "order")
    late = Claim(result.run_id, 0, 1, 1, "pipe", "order", "", result.run_id, "", 3, plan, "")
    entry = JournalEntry("step", result.run_id)
    with pytest.raises(StaleClaimError, match=result.run_id):
        bot.runtime.transport.commit(late, Commit("end", StepRecord("x", "next"), entry, outcome="done"))
    assert bot.result(result.run_id).steps == result.steps


def test_ids_sort_by_time_and_children_derive_from_their_parent(bot: Probe) -> None:
    first, second = bot.pipe("sending"), bot.pipe("sending")
    assert len(first.run_id) == LENGTH and first.run_id[:10] <= second.run_id[:10]
    record = bot.runtime.transport.run(first.run_id)
    assert record is not None
    children = record.children
    assert len(set(children)) == 2 and all(child[:10] == first.run_id[:10] for child in children)


def test_publishing_the_same_routes_changes_no_number(bot: Probe) -> None:
    table = bot.runtime.transport.routes()
    assert isinstance(table, RouteTable)
    assert bot.runtime.transport.publish(replace(table, number=0)).number == table.number
    assert "slow" in table.queues
