"""`lumia.lanes.waiting()`: what a handler sees of the runs behind it, on every transport."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.lanes import MAX_WAITING_BYTES
from lumia.replay import Replayer, recorded
from lumia.runtime import Runtime
from tests.conformance.conftest import Probe
from tests.support.wait import until


def looking(bot: Probe, gate: Path, key: str, **values: Any) -> str:
    """Start a run that looks behind itself when the gate is there, and return once it has its lane."""
    run = lumia.pipe.start("looking behind", bot.content(until=str(gate), **values), key=key or None)
    until(lambda: (found := bot.runtime.transport.run(run)) is not None and found.state == "claimed")
    return run


def notes(bot: Probe, run: str) -> Any:
    result = bot.wait(run)
    assert result.outcome == "done", result.reason
    return next(entry for entry in bot.journal(run) if entry.kind == "step").detail


def started(bot: Probe, run: str) -> float:
    record = bot.runtime.transport.run(run)
    assert record is not None
    return record.started


def test_a_handler_sees_who_waits_in_its_own_lane_oldest_first(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    run = looking(bot, gate, key)
    lumia.pipe.start("taking turns", bot.content(n="elsewhere"), key=f"other {bot.scope}")
    lumia.pipe.start("taking turns", bot.content(n="later"), key=key, delay=0.5)
    runs = [lumia.pipe.start("taking turns", bot.content(n=n), key=key) for n in range(2)]
    burst = lumia.pipe.start("bursts", bot.content(n=9), key=key, collect=0.01)
    until(lambda: (found := bot.runtime.transport.run(burst)) is not None and found.state == "waiting")
    gate.touch()
    told = notes(bot, run)
    wanted = [{"scope": bot.scope, "n": n, "changed": True} for n in range(2)]
    assert [row[:3] for row in told["waiting"][:2]] == [
        [run, "taking turns", content] for run, content in zip(runs, wanted, strict=True)
    ]
    assert told["waiting"][2][:3] == [burst, "bursts", [{"scope": bot.scope, "n": 9}]]
    assert [row[3] for row in told["waiting"]] == [started(bot, one) for one in (*runs, burst)]
    assert told["again"] == 3
    for waited in (*runs, burst):
        bot.wait(waited)
    assert [what for what in bot.seen if what in ([0], [1])] == [[0], [1]]


@pytest.mark.parametrize("asked, told", [({"last": 2}, [2, 3]), ({"first": 2}, [0, 1]), ({"first": 9}, [0, 1, 2, 3])])
def test_the_newest_or_the_next_are_told_when_more_wait_than_were_asked_for(
    bot: Probe, gate: Path, asked: dict[str, int], told: list[int]
) -> None:
    key = f"lane {bot.scope}"
    run = looking(bot, gate, key, **asked)
    runs = [lumia.pipe.start("taking turns", bot.content(n=n), key=key) for n in range(4)]
    gate.touch()
    assert [row[0] for row in notes(bot, run)["waiting"]] == [runs[n] for n in told]
    bot.wait(runs[-1])


@pytest.mark.parametrize("asked, told", [({}, [None, None, None, 3]), ({"first": 9}, [0, None, None, None])])
def test_contents_that_are_no_json_or_too_much_are_left_out(
    bot: Probe, gate: Path, asked: dict[str, int], told: list[int | None]
) -> None:
    key = f"lane {bot.scope}"
    run = looking(bot, gate, key, **asked)
    boxes = [
        bot.content(n=0), lumia.Box.any({**bot.content(n=1).into(), "more": "x" * MAX_WAITING_BYTES}),
        lumia.Box.any({**bot.content(n=2).into(), "set": {1, 2}}), bot.content(n=3),
    ]  # fmt: skip
    runs = [lumia.pipe.start("taking turns", box, key=key) for box in boxes]
    gate.touch()
    found = notes(bot, run)["waiting"]
    assert [(row[0], row[2] and row[2]["n"]) for row in found] == list(zip(runs, told, strict=True))
    bot.wait(runs[-1])


def test_nobody_waits_behind_a_run_without_a_lane(bot: Probe, gate: Path) -> None:
    run = looking(bot, gate, "")
    gate.touch()
    assert notes(bot, run)["waiting"] == []


@pytest.mark.parametrize("name, number", [("last", 0), ("last", 101), ("last", True), ("last", 2.0), ("first", 0)])
def test_a_number_that_is_none_is_refused(bot: Probe, gate: Path, name: str, number: Any) -> None:
    gate.touch()
    result = bot.pipe("looking behind", until=str(gate), **{name: number})
    assert result.outcome == "failed" and f"{name} is a number from 1 to 100" in result.reason


def test_a_replay_sees_the_same_runs_although_they_are_gone(bot: Probe, gate: Path, memory_runtime: Runtime) -> None:
    key = f"lane {bot.scope}"
    run = looking(bot, gate, key)
    after = lumia.pipe.start("taking turns", bot.content(n=1), key=key)
    gate.touch()
    assert len(notes(bot, run)["waiting"]) == 1
    bot.wait(after)
    code = Replayer(memory_runtime, memory_runtime.install(memory_runtime.plugins))  # type: ignore[arg-type]
    until(lambda: [entry.kind for entry in bot.journal(run)][-1:] == ["end"])
    (done,) = code.replay_all(recorded(bot.runtime.transport.history().entries(run)))
    assert (done.differences, done.skipped, done.steps) == ([], "", 1)


def test_it_means_something_in_handlers_only() -> None:
    with pytest.raises(lumia.errors.FlowError, match=r"lumia\.lanes\.waiting\(\) works only while a handler runs"):
        lumia.lanes.waiting()
