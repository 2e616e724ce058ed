"""Dead letters, on every transport: what they tell, and starting or dropping them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import lumia
from lumia import revival
from lumia.dead import DeadFilter, DeadLetter
from lumia.errors import DeadLetterError
from tests.conformance.conftest import Probe


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    return tmp_path / "mended"


def letter_of(bot: Probe, run_id: str) -> DeadLetter:
    found = bot.runtime.transport.dead(DeadFilter(letters=(run_id,)))
    assert len(found) == 1
    return found[0]


def test_a_letter_tells_every_try_its_error_and_where_it_ran(bot: Probe, mended: Path) -> None:
    began = time.time()
    result = bot.pipe("mendable", mended=str(mended))
    letter = letter_of(bot, result.run_id)
    assert [(one.attempt, one.error, one.lost) for one in letter.history] == [
        (number, "RuntimeError: not mended", False) for number in (1, 2, 3)
    ]
    assert all(one.worker and began - 1 <= one.time <= time.time() + 1 for one in letter.history)
    assert 'raise RuntimeError("not mended")' in letter.trace
    assert (letter.attempts, letter.flow, letter.id) == (3, "pipe", "mendable")


def test_a_retry_goes_on_from_the_failed_step_and_repeats_no_effect(bot: Probe, mended: Path) -> None:
    result = bot.pipe("mendable", mended=str(mended))
    assert result.outcome == "failed" and bot.seen == [["before"]]
    letter = letter_of(bot, result.run_id)
    mended.touch()
    again = bot.wait(revival.retry(bot.runtime, letter))
    assert again.outcome == "done"
    assert bot.seen == [["before"], ["mended", True, "paid", 1], ["after", 1]]
    assert [step.handler for step in again.steps] == ["probe.mend_fails", "probe.mend_after"]
    record = bot.runtime.transport.run(again.run_id)
    assert record is not None and record.cause == f"retry/{result.run_id}"


def test_a_letter_is_retried_once(bot: Probe, mended: Path) -> None:
    letter = letter_of(bot, bot.pipe("mendable", mended=str(mended)).run_id)
    mended.touch()
    bot.wait(revival.retry(bot.runtime, letter))
    with pytest.raises(DeadLetterError, match="is gone"):
        revival.retry(bot.runtime, letter)
    with pytest.raises(DeadLetterError, match="no dead letter"):
        revival.find(bot.runtime, letter.name)
    assert len(bot.seen) == 3


def test_a_retry_that_fails_again_is_a_letter_again_and_can_still_be_mended(bot: Probe, mended: Path) -> None:
    first = bot.pipe("mendable", mended=str(mended))
    second = bot.wait(revival.retry(bot.runtime, letter_of(bot, first.run_id)))
    assert second.outcome == "failed"
    letter = letter_of(bot, second.run_id)
    assert letter.ledger == f"{first.run_id}/1" and len(letter.history) == 3
    mended.touch()
    third = bot.wait(revival.retry(bot.runtime, letter))
    assert third.outcome == "done" and bot.seen[-2:] == [["mended", True, "paid", 1], ["after", 1]]


def test_a_retried_interceptor_guards_again_before_the_event_goes_on(bot: Probe, mended: Path) -> None:
    parked = bot.event("mend.guarded", mended=str(mended))
    assert (parked.outcome, bot.seen) == ("failed", [])
    mended.touch()
    assert bot.wait(revival.retry(bot.runtime, letter_of(bot, parked.run_id))).outcome == "done"
    assert bot.seen == [["guard"], ["consumer"]]


def test_a_retried_consumer_runs_alone_since_the_others_went_on(bot: Probe, mended: Path) -> None:
    result = bot.event("mend.news", mended=str(mended))
    found = [one for one in bot.runtime.transport.dead() if one.root_id == result.run_id]
    assert len(found) == 1 and [one.attempt for one in found[0].history] == [1, 2, 3]
    mended.touch()
    again = bot.wait(revival.retry(bot.runtime, found[0]))
    assert [step.handler for step in again.steps] == ["probe.mend_reader"]
    assert bot.seen == [["other"], ["read"]]


def test_a_retry_takes_its_turn_in_the_lane(bot: Probe, mended: Path, gate: Path) -> None:
    key = f"lane:{bot.scope}"
    letter = letter_of(bot, bot.pipe("mendable", options={"key": key}, mended=str(mended)).run_id)
    busy = lumia.pipe.start("lane", bot.content(n=1, until=str(gate)), key=key)
    mended.touch()
    again = revival.retry(bot.runtime, letter)
    gate.touch()
    bot.wait(again)
    bot.wait(busy)
    assert [row[:2] for row in bot.seen] == [["before"], [1, "begin"], [1, "child"], ["mended", True], ["after", 1]]


def test_a_dropped_letter_is_gone_and_the_journal_says_why(bot: Probe, mended: Path) -> None:
    result = bot.pipe("mendable", mended=str(mended))
    revival.drop(bot.runtime, letter_of(bot, result.run_id), "nobody waits for it")
    assert bot.runtime.transport.dead(DeadFilter(letters=(result.run_id,))) == []
    told = [entry for entry in bot.journal(result.run_id) if entry.kind == "dead"]
    assert [(entry.outcome, entry.reason) for entry in told][1:] == [("dropped", "nobody waits for it")]


def test_a_letter_of_a_live_resource_says_why_it_cannot_be_retried(bot: Probe, mended: Path) -> None:
    result = bot.pipe("mend.opens", mended=str(mended))
    letter = next(one for one in bot.runtime.transport.dead() if one.root_id == result.run_id)
    with pytest.raises(DeadLetterError, match="live resource"):
        revival.retry(bot.runtime, letter)
    assert letter_of(bot, letter.run_id) == letter


def test_letters_are_found_by_what_is_known_of_them(bot: Probe, mended: Path) -> None:
    key = f"qq:7:group-{bot.scope}"
    began = time.time()
    run = bot.pipe("mendable", options={"key": key}, mended=str(mended)).run_id
    event = bot.event("mend.guarded", mended=str(mended)).run_id

    def found(**wanted: object) -> list[str]:
        letters = bot.runtime.transport.dead(DeadFilter(**{"since": began - 1, **wanted}))  # type: ignore[arg-type]
        return [letter.run_id for letter in letters if letter.run_id in (run, event)]

    assert found() == [event, run]
    assert found(limit=1) == [event]
    assert found(id="mend*e") == [run]
    assert found(handler="probe.mend_guard") == [event]
    assert found(group=key) == found(group=f"group-{bot.scope}") == [run]
    assert found(error="NOT MENDED") == [event, run] and found(error="other") == []
    assert found(since=began + 3600) == found(until=began - 3600) == []
    assert found(letters=(run[:-2],)) in ([run], [event, run])
    assert revival.find(bot.runtime, run).name == f"{run}.1"
