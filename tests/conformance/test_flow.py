"""What DESIGN §6 promises of the four primitives, on every transport."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lumia
from tests.conformance.conftest import Probe


def outcomes(result: Any) -> list[tuple[str, str]]:
    return [(step.handler, step.outcome) for step in result.steps]


def test_a_pipeline_runs_by_priority_and_ties_by_registration(bot: Probe) -> None:
    result = bot.pipe("order")
    assert bot.seen == [["first"], ["second"], ["second_again"], ["last"]]
    assert result.outcome == "done"
    assert outcomes(result) == [(f"probe.{name}", "next") for name in ("first", "second", "second_again", "last")]


def test_leaving_next_out_ends_the_chain(bot: Probe) -> None:
    result = bot.pipe("stopping")
    assert (result.outcome, result.reason, bot.seen) == ("stopped", "no next()", [])


def test_stop_gives_the_reason_for_the_trace(bot: Probe) -> None:
    result = bot.pipe("stopping", why="cooldown")
    assert (result.outcome, result.reason) == ("stopped", "cooldown")
    assert outcomes(result) == [("probe.stopper", "stop")]


def test_next_box_changes_the_content_and_a_bare_next_keeps_only_meta(bot: Probe) -> None:
    bot.pipe("changing", n=1)
    assert bot.seen == [[2, {"force_engage": True}]]


def test_a_handler_that_keeps_failing_ends_in_the_dead_letters_and_leaves_nothing_behind(bot: Probe) -> None:
    result = bot.pipe("failing")
    assert result.outcome == "failed" and "no luck" in result.reason
    assert outcomes(result) == [("probe.fails", "retry"), ("probe.fails", "retry"), ("probe.fails", "failed")]
    letter = next(letter for letter in bot.runtime.transport.dead() if letter.run_id == result.run_id)
    assert (letter.handler, letter.attempts) == ("probe.fails", 3)
    assert "RuntimeError: no luck" in letter.error
    assert bot.seen == []


def test_a_retry_gets_the_recorded_effect_instead_of_a_second_call(bot: Probe, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    result = bot.pipe("recovering", file=str(file))
    assert result.outcome == "done"
    assert bot.seen == [["paid", 1, "tries", 3]]
    assert file.stat().st_size == 1


@pytest.mark.parametrize(
    "id, why",
    [
        ("twice", "called next() twice"),
        ("rubbish", "returned a dict"),
        ("typed", "probe.wants_text"),
        ("exits", "tried to exit the process"),
    ],
)
def test_a_mistake_is_named_and_not_tried_again(bot: Probe, id: str, why: str) -> None:
    result = bot.pipe(id)
    assert result.outcome == "failed"
    assert len(result.steps) == 1
    assert why in result.reason


def test_async_handlers_run_and_are_cancelled_at_their_limit(bot: Probe) -> None:
    assert bot.pipe("async").outcome == "done"
    assert bot.seen == [["async"]]
    late = bot.pipe("async hangs")
    assert late.outcome == "failed" and "0.2 s" in late.reason


def test_globs_receive_the_matched_id(bot: Probe) -> None:
    bot.pipe("glob.any.thing.end")
    assert bot.seen == [["glob.any.thing.end"]]


def test_a_stage_on_another_queue_gets_its_turn_there(bot: Probe) -> None:
    result = bot.pipe("elsewhere")
    assert result.outcome == "done"
    assert bot.seen == [["here"], ["there"]]


def test_an_id_nobody_handles_is_done_at_once_and_says_so(bot: Probe) -> None:
    result = bot.pipe("nobody listens")
    assert (result.outcome, result.reason, result.steps) == ("done", "no handler", [])


def test_every_consumer_gets_its_own_copy_in_priority_order(bot: Probe) -> None:
    bot.event("news", text="rain")
    assert bot.seen == [["early", "rain"], ["late", "rain"]]


def test_a_consumer_that_keeps_failing_does_not_hold_up_the_others(bot: Probe) -> None:
    result = bot.event("news.broken")
    assert result.outcome == "done"
    assert bot.seen == [["read on"]]
    child = [letter for letter in bot.runtime.transport.dead() if letter.root_id == result.run_id]
    assert [(letter.handler, letter.attempts) for letter in child] == [("probe.breaks", 3)]


def test_a_consumer_is_tried_again_on_its_own(bot: Probe, tmp_path: Path) -> None:
    result = bot.event("news.flaky", file=str(tmp_path / "tries"))
    assert sorted(bot.seen) == [["at last"], ["not waiting"]]
    assert bot.seen[0] == ["not waiting"]
    assert result.outcome == "done"


def test_a_chain_changes_the_content_and_survives_a_failing_link(bot: Probe) -> None:
    result = bot.event("refined", text="rain")
    assert bot.seen == [["RAIN", {"refined": True}]]
    assert result.outcome == "done"
    assert ("probe.refining_fails", "failed") in outcomes(result)
    assert [letter.handler for letter in bot.runtime.transport.dead() if letter.run_id == result.run_id] == [
        "probe.refining_fails"
    ]


def test_interceptors_come_first_then_the_chain_then_the_consumers(bot: Probe) -> None:
    assert bot.event("guarded").outcome == "done"
    assert bot.seen == [["guard"], ["second guard"], ["chain"], ["consumer"]]


def test_an_interceptor_blocks_everything_after_it(bot: Probe) -> None:
    result = bot.event("guarded", bad=True)
    assert (result.outcome, result.reason, bot.seen) == ("blocked", "bad news", [["guard"]])


def test_a_broken_interceptor_fails_closed(bot: Probe) -> None:
    result = bot.event("closed")
    assert (result.outcome, bot.seen) == ("failed", [])
    assert any(letter.run_id == result.run_id for letter in bot.runtime.transport.dead())


def test_replies_of_the_tree_are_collected(bot: Probe) -> None:
    result = bot.pipe("sending")
    assert result.replies == ["hello", "plain"]
    assert result.as_dict().keys() == {"run_id", "outcome", "replies", "steps", "ms"}


def test_the_journal_tells_the_story_of_a_run(bot: Probe) -> None:
    result = bot.pipe("order")
    story = bot.journal(result.run_id)
    assert [entry.kind for entry in story] == ["start", "step", "step", "step", "step", "end"]
    assert [entry.handler for entry in story[1:3]] == ["probe.first", "probe.second"]
    assert ["box" in entry.detail for entry in story] == [False, True, False, False, False, False]
    assert story[-1].outcome == "done"
    assert all(entry.worker for entry in story if entry.kind == "step")


def test_starting_needs_a_box_and_a_printable_id(bot: Probe) -> None:
    with pytest.raises(lumia.errors.BoxError, match=r"Box\.any"):
        lumia.pipe.start("order", {"bare": "dict"})  # type: ignore[arg-type]
    for wrong in ("", "a\x00b", "\ud800", "x" * 600):
        with pytest.raises(lumia.errors.PayloadError, match="printable"):
            lumia.pipe.start(wrong, lumia.Box.any(1))
