"""`next(delay=…)`: a pause between two steps, on every transport."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from lumia.lookup import Lookup
from lumia.replay import Replayer, recorded
from lumia.runtime import Runtime
from tests.conformance.conftest import Probe
from tests.support.wait import until

PAUSE = 0.4


def pausing(bot: Probe, n: int, pause: float = PAUSE) -> str:
    return lumia.pipe.start("pausing", bot.content(n=n, pause=pause), key=f"pause {bot.scope}")


def state(bot: Probe, run_id: str) -> str:
    found = bot.runtime.transport.run(run_id)
    return found.state if found is not None else ""


def test_the_next_step_begins_after_the_pause_and_the_lane_waits_for_it(bot: Probe) -> None:
    runs = [pausing(bot, n) for n in (1, 2)]
    until(lambda: state(bot, runs[0]) == "delayed")
    assert state(bot, runs[1]) == "waiting"
    assert [bot.wait(run).outcome for run in runs] == ["done", "done"]
    assert bot.seen == [[1, "before"], [1, "after", True], [2, "before"], [2, "after", True]]
    _, put_off, later = (entry for entry in bot.journal(runs[0]) if entry.kind == "step")
    assert put_off.detail["next_delay"] == PAUSE
    assert later.time - later.ms / 1000 - put_off.time > PAUSE - 0.02  # of two clocks: the worker's and the journal's


def test_a_trace_shows_the_pause_before_the_step_that_came_after_it(bot: Probe) -> None:
    run = pausing(bot, 1)
    bot.wait(run)
    lookup = Lookup(bot.runtime.transport.history(), bot.runtime.transport)
    trace: Any = until(lambda: found if (found := lookup.trace(lookup.one(run))).ended else None)
    step = trace.run.steps[-1]
    pause = next(wait for wait in step.waits if wait.kind == "delay")
    assert step.handler == "probe.goes_on_later" and pause.ms == pytest.approx(PAUSE * 1000)


def test_a_run_that_is_cancelled_in_its_pause_ends_at_once_and_the_lane_goes_on(bot: Probe) -> None:
    first, second = pausing(bot, 1, pause=60.0), pausing(bot, 2, pause=0.0)
    until(lambda: state(bot, first) == "delayed")
    assert bot.runtime.transport.cancel(first, "enough")
    assert (bot.wait(first).outcome, bot.wait(second).outcome) == ("cancelled", "done")
    assert bot.seen == [[1, "before"], [2, "before"], [2, "after", True]]


@pytest.mark.parametrize("pause", [-1, float("inf"), 60.1, True, "1"])
def test_a_pause_that_is_none_or_too_long_fails_the_step_at_once(bot: Probe, pause: Any) -> None:
    result = bot.wait(lumia.pipe.start("pausing", lumia.Box.any({"scope": bot.scope, "n": 1, "pause": pause})))
    assert (result.outcome, len(result.steps)) == ("failed", 2)
    assert "probe.makes_a_pause" in result.reason and "60" in result.reason


def test_a_replay_of_a_run_with_a_pause_differs_in_nothing(bot: Probe, memory_runtime: Runtime) -> None:
    run = pausing(bot, 1)
    bot.wait(run)
    code = Replayer(memory_runtime, memory_runtime.install(memory_runtime.plugins))  # type: ignore[arg-type]
    until(lambda: len(bot.journal(run)) == 5)
    (done,) = code.replay_all(recorded(bot.runtime.transport.history().entries(run)))
    assert (done.differences, done.skipped, done.steps) == ([], "", 3)
