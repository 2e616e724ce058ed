"""What was recorded is found again, on every transport."""

from __future__ import annotations

from pathlib import Path

import lumia
from lumia.history import RunFilter
from lumia.lookup import Lookup
from tests.conformance.conftest import Probe
from tests.support.wait import until


def test_a_tree_is_found_by_its_lane_and_summed_up(bot: Probe) -> None:
    key = f"console:history:group-{bot.scope}"
    result = bot.pipe("lane", options={"key": key}, n=1)
    history = bot.runtime.transport.history()
    (whole,) = history.find(RunFilter(group=bot.scope, trees=True))
    assert (whole.run_id, whole.outcome, whole.flow, whole.id) == (result.run_id, "done", "pipe", "lane")
    assert whole.steps == len(result.steps) and whole.ended >= whole.started > 0
    every = history.find(RunFilter(group=f"group-{bot.scope}"))
    assert {run.root_id for run in every} == {result.run_id} and len(every) > 1


def test_the_entries_of_a_tree_are_those_of_the_journal(bot: Probe) -> None:
    result = bot.pipe("families", depth=2)
    entries = bot.runtime.transport.history().entries(result.run_id)
    assert entries == bot.journal(result.run_id)
    trace = Lookup(bot.runtime.transport.history(), bot.runtime.transport).trace(
        Lookup(bot.runtime.transport.history()).one(result.run_id)
    )
    assert len(list(trace.run.attached)) == 7 and trace.ended


def test_a_run_that_waits_tells_behind_whom_and_for_what(bot: Probe, gate: Path) -> None:
    key = f"lane {bot.scope}"
    first = lumia.pipe.start("lane", bot.content(n=1, until=str(gate)), key=key)
    second = lumia.pipe.start("lane", bot.content(n=2), key=key)
    lookup = Lookup(bot.runtime.transport.history(), bot.runtime.transport)
    until(lambda: bot.runtime.transport.run(first).state == "claimed")  # type: ignore[union-attr]
    held, waits = lookup.trace(lookup.one(first)).run, lookup.trace(lookup.one(second)).run
    assert (held.state, held.live.handler) == ("claimed", "probe.in_lane")  # type: ignore[union-attr]
    assert (waits.state, waits.live.behind) == ("waiting", first)  # type: ignore[union-attr]
    gate.touch()
    bot.wait(second)
    assert bot.runtime.transport.run(second).handler == ""  # type: ignore[union-attr]
    assert bot.runtime.transport.lane_holder(key) == ""


def test_a_delay_stands_in_the_journal(bot: Probe) -> None:
    run = lumia.pipe.start("families", bot.content(depth=0), delay=0.05)
    bot.wait(run)
    (start, *_) = bot.runtime.transport.history().entries(run)
    assert start.detail["delay"] == 0.05
