"""Replay, whatever recorded the runs: offline nothing differs, live nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lumia.held import HELD
from lumia.loader import PluginSet
from lumia.replay import RecordedTree, Replayer, recorded
from lumia.replay.live import restart
from lumia.runtime import Runtime
from tests.conformance.conftest import Probe
from tests.support.wait import until

SENDS = ["delivered along", "delivered apart", "delivered relay", "direct"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside").touch()
    return tmp_path


def sent(folder: Path) -> list[str]:
    return sorted((folder / "outside").read_text().splitlines())


def record(bot: Probe, folder: Path, **options: Any) -> str:
    """Run the relay once, and wait until everything it caused has ended."""
    found = bot.pipe("relay", folder=str(folder), options=options)
    assert found.outcome == "done"
    until(lambda: sent(folder) == SENDS, timeout=20, what="everything is sent")
    return found.run_id


def trees(bot: Probe, *roots: str) -> list[RecordedTree]:
    return recorded(entry for root in roots for entry in bot.runtime.transport.history().entries(root))


@pytest.fixture
def code(bot: Probe, memory_runtime: Runtime) -> Replayer:
    """Today's code, as loaded in this process."""
    plugins = memory_runtime.plugins
    assert isinstance(plugins, PluginSet)
    return Replayer(memory_runtime, memory_runtime.install(plugins))


def test_a_recorded_run_differs_in_nothing_when_it_is_replayed_offline(
    bot: Probe, folder: Path, code: Replayer
) -> None:
    run_id = record(bot, folder, key=f"lane-{bot.scope}")
    until(lambda: all(run.ended for run in trees(bot, run_id)[0].runs.values()), what="the journal tells all")

    (done,) = code.replay_all(trees(bot, run_id))

    assert (done.differences, done.skipped) == ([], "")
    assert done.runs == 5  # the relay, what it sent and told, the retry, and what that sent
    assert done.steps == 7
    assert sent(folder) == SENDS


def test_a_run_started_again_live_sends_nothing_and_neither_does_what_it_starts(bot: Probe, folder: Path) -> None:
    run_id = record(bot, folder)
    for marker in folder.glob("failed-*"):
        marker.unlink()

    (again,) = restart(bot.runtime, trees(bot, run_id), send=False, rate=100)
    assert bot.wait(again.new_id).outcome == "done"
    apart = "the detached run and its retry have ended"
    until(lambda: len(stopped(bot, again.new_id)) == 3, timeout=20, what=apart)

    assert {run.outcome for run in stopped(bot, again.new_id)} == {"stopped"}
    assert {run.reason for run in stopped(bot, again.new_id)} == {HELD}
    assert sent(folder) == SENDS
    record_ = bot.runtime.transport.run(again.new_id)
    assert record_ is not None
    assert record_.cause == f"replay/{run_id}"
    assert [(step.handler, step.outcome, step.reason) for step in record_.steps][-1] == (
        "probe.sends_itself", "skipped", f"{HELD} (effect 'direct')",
    )  # fmt: skip


def stopped(bot: Probe, run_id: str) -> list[Any]:
    """Return the ended sends that a run has caused, those of detached runs and retries included."""
    found, left = [], [run_id]
    while left:
        run = bot.runtime.transport.run(left.pop())
        if run is not None:
            left += run.children
            found += [run] if run.id.startswith("msg.send") and run.outcome else []
    return found


def test_a_run_started_again_live_sends_when_that_is_wanted(bot: Probe, folder: Path) -> None:
    run_id = record(bot, folder, key=f"lane-{bot.scope}")

    (again,) = restart(bot.runtime, trees(bot, run_id), send=True, rate=100)
    assert bot.wait(again.new_id).outcome == "done"

    until(lambda: sent(folder) == sorted(SENDS * 2), timeout=20, what="everything is sent again")
    record_ = bot.runtime.transport.run(again.new_id)
    assert record_ is not None
    assert record_.key == f"replay/lane-{bot.scope}"


def test_a_run_that_was_put_off_differs_in_nothing_when_it_is_replayed(
    bot: Probe, tmp_path: Path, code: Replayer
) -> None:
    again = bot.pipe("coming back", file=str(tmp_path / "calls"), times=2, wait=0.05)
    given_up = bot.pipe("coming back", file=str(tmp_path / "other"), times=1, wait=7200)
    as_child = bot.event("coming back consumers", file=str(tmp_path / "third"), times=2, wait=0.05)
    for run in (again, given_up, as_child):
        (done,) = code.replay_all(trees(bot, run.run_id))
        assert (done.differences, done.skipped) == ([], "")
