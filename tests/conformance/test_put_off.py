"""What the outside world says of a call: come back later, never, or it was not reached; on every transport."""

from __future__ import annotations

from pathlib import Path

import lumia
from tests.conformance.conftest import Probe


def calls(path: Path) -> int:
    return path.stat().st_size


def test_a_step_comes_back_when_it_was_told_to_and_that_costs_no_try(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    result = bot.pipe("coming back", file=str(file), times=4, wait=0.2)
    assert result.outcome == "done"
    assert bot.seen == [["called", 5]]
    steps = [entry for entry in bot.journal(result.run_id) if entry.kind == "step"]
    assert [(entry.outcome, entry.attempt) for entry in steps] == [
        ("retry", 1), ("retry", 2), ("retry", 3), ("retry", 4), ("stop", 5),
    ]  # fmt: skip
    assert steps[0].detail["deferred"] == 0.2


def test_it_comes_back_neither_early_nor_as_late_as_its_own_pause_would_be(bot: Probe, tmp_path: Path) -> None:
    began = lumia.system.monotonic()
    bot.pipe("coming back soon", file=str(tmp_path / "calls"), times=1, wait=0.4)
    assert 0.4 <= lumia.system.monotonic() - began < 20


def test_one_of_several_consumers_comes_back_and_the_others_do_not_wait(bot: Probe, tmp_path: Path) -> None:
    result = bot.event("coming back consumers", file=str(tmp_path / "calls"), times=3, wait=0.1)
    assert result.outcome == "done"
    assert bot.seen == [["other"], ["called", 4]]


def test_tries_that_were_put_off_are_not_among_those_that_failed(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    result = bot.pipe("coming back and failing", file=str(file), busy=[1, 3, 4])
    assert (result.outcome, calls(file)) == ("failed", 6)
    (letter,) = [one for one in bot.runtime.transport.dead() if one.run_id == result.run_id]
    assert [failure.error for failure in letter.history] == [f"RuntimeError: call {n}" for n in (2, 5, 6)]


def test_who_is_put_off_for_too_long_is_a_dead_letter_that_says_so(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    result = bot.pipe("coming back", file=str(file), times=1, wait=7200)
    assert (result.outcome, calls(file)) == ("failed", 1)
    assert "put off for 0 s so far and now for 7200 s; 3600 s in all is the most" in result.reason


def test_what_is_refused_for_good_is_never_tried_again(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    result = bot.pipe("refused for good", file=str(file))
    assert (result.outcome, calls(file)) == ("failed", 1)
    assert result.reason == "RejectedError: the bot was blocked by the user"
    assert bot.runtime.transport.effects(result.run_id)[0][2].state == "failed"


def test_a_held_call_that_was_surely_not_made_is_made_again(bot: Probe, tmp_path: Path) -> None:
    result = bot.pipe("not reached", file=str(tmp_path / "calls"))
    assert result.outcome == "done"
    assert bot.seen == [["called", 3]]


def test_what_a_failing_step_keeps_is_kept_and_the_rest_is_not(bot: Probe) -> None:
    bot.pipe("keeping while failing")
    store = lumia.store.of("probe")
    assert store.get("kept", scope=bot.scope) == 2
    assert store.get("lost", scope=bot.scope) is None
