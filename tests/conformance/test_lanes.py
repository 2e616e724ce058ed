"""What a start may ask of its lane, and of a rate, on every transport."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import lumia
from lumia.errors import BoxError, LaneFullError, PayloadError, RateLimitedError
from lumia.lanes import LaneInfo
from tests.conformance.conftest import Probe
from tests.support.wait import until


def lane(bot: Probe, key: str) -> LaneInfo | None:
    """Return what is known of one lane, None when it is idle."""
    return next(iter(bot.runtime.transport.lanes(key).lanes), None)


def busy(bot: Probe, key: str, gate: Path) -> str:
    """Keep a lane busy until `gate` is touched, and return once its run has begun."""
    run = lumia.pipe.start("lane", bot.content(n="first", until=str(gate)), key=key)
    until(lambda: (found := bot.runtime.transport.run(run)) is not None and found.state == "claimed")
    return run


def test_a_retry_that_releases_its_lane_lets_the_next_run_go_ahead(bot: Probe, tmp_path: Path) -> None:
    key = f"lane {bot.scope}"
    failing = lumia.pipe.start("taking turns", bot.content(n=1, file=str(tmp_path / "tries")), key=key)
    others = [lumia.pipe.start("taking turns", bot.content(n=n), key=key) for n in (2, 3)]
    for run in (failing, *others):
        assert bot.wait(run).outcome == "done"
    assert bot.seen == [[2], [3], [1]]
    assert lane(bot, key) is None


def test_a_consumers_retry_that_releases_the_lane_is_a_run_of_its_own(bot: Probe, tmp_path: Path) -> None:
    key = f"lane {bot.scope}"
    content = bot.content(n=1, file=str(tmp_path / "tries"))
    first = lumia.event.start("fanned", content, key=key)
    second = lumia.pipe.start("taking turns", bot.content(n=2), key=key)
    assert bot.wait(first).outcome == "done"
    bot.wait(second)
    until(lambda: len(bot.seen) == 3)
    assert bot.seen == [[1, "at once"], [2], [1, "after all"]]
    until(lambda: lane(bot, key) is None)


def test_a_full_lane_rejects_what_is_one_too_many_and_accepts_again_later(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    runs = [busy(bot, key, gate), lumia.pipe.start("lane", bot.content(n=2), key=key, cap=1, dedup=bot.scope)]
    with pytest.raises(LaneFullError, match=rf"lane {key} is full: 1 runs wait and its cap is 1"):
        lumia.pipe.start("lane", bot.content(n=3), key=key, cap=1, dedup=f"{bot.scope} 3")
    assert lumia.pipe.start("lane", bot.content(n=2), key=key, cap=1, dedup=bot.scope) == runs[1]
    gate.touch()
    for run in runs:
        bot.wait(run)
    again = lumia.pipe.start("lane", bot.content(n=3), key=key, cap=1, dedup=f"{bot.scope} 3")
    assert bot.wait(again).outcome == "done"


@pytest.mark.parametrize("overflow, dropped", [("drop_oldest", 0), ("drop_newest", 2)])
def test_a_full_lane_drops_the_declared_run_and_says_why(bot: Probe, gate: Path, overflow: str, dropped: int) -> None:
    key = f"lane {bot.scope}"
    busy(bot, key, gate)
    before = bot.runtime.transport.lanes().totals["dropped"]
    runs = [lumia.pipe.start("lane", bot.content(n=n), key=key, cap=2, overflow=overflow) for n in range(3)]
    gate.touch()
    results = [bot.wait(run) for run in runs]
    assert [result.outcome for result in results] == ["stopped" if n == dropped else "done" for n in range(3)]
    assert f"lane {key} is full (cap 2)" in results[dropped].reason
    assert [entry.kind for entry in bot.journal(runs[dropped])] == ["start", "end"]
    assert bot.runtime.transport.lanes().totals["dropped"] == before + 1


def test_a_run_that_waited_too_long_is_dropped_and_the_lane_goes_on(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    busy(bot, key, gate)
    stale = lumia.pipe.start("late", bot.content(), key=key, max_age=0.2)
    fresh = lumia.pipe.start("late", bot.content(), key=key, max_age=30)
    anyway = lumia.pipe.start("late", bot.content(), key=key, max_age=0.2, stale="run")
    began = bot.runtime.transport.run(anyway).started  # type: ignore[union-attr]
    until(lambda: time.time() - began > 0.3)
    gate.touch()
    assert [bot.wait(run).outcome for run in (stale, fresh, anyway)] == ["stopped", "done", "done"]
    assert bot.result(stale).reason.startswith("stale: waited 0.") and bot.result(stale).reason.endswith(
        "max_age 0.2 s"
    )
    assert [what for what in bot.seen if what[0] == "late by"] == [["late by", False], ["late by", True]]
    step = next(entry for entry in bot.journal(anyway) if entry.kind == "step")
    assert step.detail["stale"] > 0


def test_a_burst_becomes_one_run_with_the_list_of_its_contents(bot: Probe) -> None:
    key, texts = f"lane {bot.scope}", [f"{bot.scope} {n}" for n in range(3)]
    boxes = [lumia.Box.any({"scope": bot.scope, "n": n}, meta={"last": n, f"m{n}": True}) for n in range(3)]
    runs = [
        lumia.pipe.start("bursts", box, key=key, collect=0.5, dedup=text)
        for box, text in zip(boxes, texts, strict=True)
    ]
    again = [
        lumia.pipe.start("bursts", box, key=key, collect=0.5, dedup=text)
        for box, text in zip(boxes, texts, strict=True)
    ]
    assert len({*runs, *again}) == 1
    found = lane(bot, key)
    assert found is not None and (found.collecting, found.run, found.waiting) == (1, "", 0)
    result = bot.wait(runs[0])
    assert result.outcome == "done" and result.ms >= 500
    assert bot.seen == [[[0, 1, 2], {"last": 2, "m0": True, "m1": True, "m2": True}]]
    assert [entry.kind for entry in bot.journal(runs[0])] == ["start", "join", "join", "step", "end"]
    later = lumia.pipe.start("bursts", bot.content(n=9), key=key, collect=0.05)
    assert later != runs[0] and bot.wait(later).outcome == "done"
    until(lambda: lane(bot, key) is None)


def test_a_burst_that_never_pauses_ends_after_max_wait(bot: Probe) -> None:
    key = f"lane {bot.scope}"
    runs: list[str] = []

    def another() -> bool:
        runs.append(lumia.pipe.start("bursts", bot.content(n=len(runs)), key=key, collect=0.4, max_wait=0.8))
        return runs[-1] != runs[0]

    until(another)
    for run in set(runs):
        assert bot.wait(run).outcome == "done"
    assert [n for part, _ in bot.seen for n in part] == list(range(len(runs)))


def test_messages_join_a_burst_that_waits_for_its_lane_until_somebody_would_be_overtaken(
    bot: Probe, gate: Path
) -> None:
    key = f"lane {bot.scope}"
    busy(bot, key, gate)
    first = lumia.pipe.start("bursts", bot.content(n=0), key=key, collect=0.05)
    until(lambda: (found := lane(bot, key)) is not None and found.waiting == 1)
    assert lumia.pipe.start("bursts", bot.content(n=1), key=key, collect=0.05) == first
    between = lumia.pipe.start("taking turns", bot.content(n="between"), key=key)
    second = lumia.pipe.start("bursts", bot.content(n=2), key=key, collect=0.05)
    assert second != first
    until(lambda: (found := lane(bot, key)) is not None and found.waiting == 3)
    gate.touch()
    for run in (first, between, second):
        bot.wait(run)
    assert bot.seen[2:] == [[[0, 1], {}], ["between"], [[2], {}]]


def test_a_cancelled_burst_is_gone_and_the_next_message_opens_another(bot: Probe) -> None:
    key = f"lane {bot.scope}"
    first = lumia.pipe.start("bursts", bot.content(n=0), key=key, collect=30)
    assert bot.runtime.transport.cancel(first, "never mind")
    assert bot.wait(first).reason == "never mind"
    second = lumia.pipe.start("bursts", bot.content(n=1), key=key, collect=0.05)
    assert second != first and bot.wait(second).outcome == "done"
    assert bot.seen == [[[1], {}]]


def test_a_rate_spaces_runs_of_one_lane_evenly_and_keeps_their_order(bot: Probe) -> None:
    rate, key = lumia.Rate(10, per=3, burst=2), f"lane {bot.scope}"
    runs = [lumia.pipe.start("taking turns", bot.content(n=n), key=key, rate=rate) for n in range(5)]
    began = [bot.runtime.transport.run(run).started for run in runs]  # type: ignore[union-attr]
    for run in runs:
        bot.wait(run)
    ended = [bot.runtime.transport.run(run).ended for run in runs]  # type: ignore[union-attr]
    assert bot.seen == [[n] for n in range(5)]
    assert all(end - began[0] >= 0.3 * (n - 1) for n, end in enumerate(ended))


@pytest.mark.parametrize("over", ["drop", "reject"])
def test_a_run_over_its_rate_is_dropped_or_rejected_as_declared(bot: Probe, over: str) -> None:
    rate, key = lumia.Rate(1, per=3600, over=over), f"lane {bot.scope}"
    first = lumia.pipe.start("taking turns", bot.content(n=1), key=key, rate=rate)
    assert bot.wait(first).outcome == "done"
    if over == "reject":
        with pytest.raises(RateLimitedError, match="1 per 3600 s, is reached") as caught:
            lumia.pipe.start("taking turns", bot.content(n=2), key=key, rate=rate)
        assert 3500 < caught.value.wait <= 3600
    else:
        result = bot.wait(lumia.pipe.start("taking turns", bot.content(n=2), key=key, rate=rate))
        assert result.outcome == "stopped" and result.reason.startswith("dropped: rate limit pipe taking turns")
    assert bot.seen == [[1]]


def test_a_refused_start_in_a_handler_fails_the_step_which_is_tried_again(bot: Probe) -> None:
    runs = [lumia.pipe.start("starts rated", bot.content()) for _ in range(2)]
    results = [bot.wait(run) for run in runs]
    assert [result.outcome for result in results] == ["done", "done"]
    assert max(len(result.steps) for result in results) > 1
    assert any("RateLimitedError" in step.reason for result in results for step in result.steps)


def test_a_handler_can_ask_a_limit_for_a_place(bot: Probe) -> None:
    bot.pipe("asks for a place")
    assert bot.seen == [[True, True, False]]
    refused = lumia.limit(f"place {bot.scope}", lumia.Rate(1, per=3600, burst=2))
    assert not refused and 3500 < refused.wait <= 3600


def test_cancelling_a_run_ends_its_whole_tree_and_the_lane_goes_on(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    run = lumia.pipe.start("has many children", bot.content(until=str(gate)), key=key)
    after = lumia.pipe.start("taking turns", bot.content(n="after"), key=key)
    until(lambda: [0, "begin"] in bot.seen or len(bot.runtime.transport.run(run).children) == 4)  # type: ignore[union-attr]
    assert bot.runtime.transport.cancel(run, "all of it")
    gate.touch()
    assert bot.wait(after).outcome == "done"
    record = bot.runtime.transport.run(run)
    assert record is not None and record.finished and len(record.children) == 4
    ends = [bot.result(child) for child in record.children]
    assert {(end.outcome, end.reason) for end in ends} == {("cancelled", "all of it")}
    assert bot.seen[-1] == ["after"] and not bot.runtime.transport.cancel(run, "again")


def test_a_run_that_is_cancelled_in_its_last_step_ends_as_cancelled(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    run = busy(bot, key, gate)
    assert bot.runtime.transport.cancel(run, "too late for the step")
    gate.touch()
    result = bot.wait(run)
    assert (result.outcome, result.reason) == ("cancelled", "too late for the step")
    assert [what for what in bot.seen if what[1] == "child"] == []
    assert lane(bot, key) is None


def test_a_long_lane_and_a_short_one_take_turns(bot: Probe) -> None:
    long, short = f"long {bot.scope}", f"short {bot.scope}"
    before = [lumia.pipe.start("taking turns", bot.content(n=n), key=long) for n in range(200)]
    alone = lumia.pipe.start("taking turns", bot.content(n="short"), key=short)
    too_late = len(bot.seen) >= 200  # the long lane was through before the short one began: a slow machine
    bot.wait(alone)
    waiting = sum(bot.result(run).outcome is None for run in before)
    bot.wait(before[-1], timeout=60)
    place = [n for (n,) in bot.seen].index("short")
    assert waiting > 0 or place < 200 or too_late
    assert [n for (n,) in bot.seen if n != "short"] == list(range(200))


def test_wrong_options_are_refused_before_anything_is_accepted(bot: Probe) -> None:
    with pytest.raises(PayloadError, match="name it with key="):
        lumia.pipe.start("order", bot.content(), collect=1.0)
    with pytest.raises(PayloadError, match="overflow is one of"):
        lumia.pipe.start("order", bot.content(), key="k", cap=1, overflow="drop")
    with pytest.raises(PayloadError, match="leave one out"):
        lumia.pipe.start("order", bot.content(), key="k", delay=1, collect=1.0)
    with pytest.raises(BoxError, match="JSON values"):
        lumia.pipe.start("order", lumia.Box.any({1, 2}), key="k", collect=1.0)
