"""One line says why a message was, or was not, answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.history import RunSummary
from lumia.trace import Live, build
from lumia.verdict import as_dict, seconds, verdict
from tests.support.stories import T0, Story, answered

SEND = "msg.send, dest=1.console.group-7"


def told(story: Story, **options: object) -> tuple[str, bool | None]:
    found = verdict(build(story.entries, **options).run)  # type: ignore[arg-type]
    return found.text, found.answered


def sending(finish: Callable[[Story, str], object], id: str = "msg") -> tuple[str, bool | None]:
    """Return the verdict on a run that sent one message, whose fate `finish` tells."""
    story = Story()
    run = story.start(id)
    story.step(run, 0, "a.answer", 10, "stop").end(run, 10)
    finish(story, story.child(run, 0, 0, SEND, 10))
    return told(story)


def test_an_answer_is_told_with_its_time_although_something_else_failed() -> None:
    assert told(answered()[0]) == ("answered: 1 message delivered at +2.39 s", True)


def test_several_answers_are_counted() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.answer", 10, "stop").end(run, 10)
    for number in range(2):
        send = story.child(run, 0, number, SEND, 10)
        story.step(send, 0, "a.send", 100 + number * 900).end(send, 100 + number * 900)
    assert told(story) == ("answered: 2 messages delivered at +100 ms, the last at +1.00 s", True)


def test_a_stop_names_handler_and_reason() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "heartflow.filter_message", 3, "stop", reason="cooldown").end(run, 3, "stopped", "cooldown")
    assert told(story) == ("not answered: stopped by heartflow.filter_message: cooldown", False)


def test_a_stop_in_a_later_pipeline_is_found() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.think", 3, "stop").end(run, 3)
    polish = story.child(run, 0, 0, "reply.polish", 3)
    story.step(polish, 0, "a.polish", 4, "stop", reason="empty").end(polish, 4, "stopped", "empty")
    assert told(story) == ("not answered: stopped by a.polish: empty", False)


def test_a_block_names_the_interceptor() -> None:
    text, ok = sending(lambda story, run: story.step(run, 0, "guard.check", 12, "block", reason="spam").end(
        run, 12, "blocked", "spam"))  # fmt: skip
    assert (text, ok) == ("not answered: the reply did not arrive: blocked by guard.check: spam", False)


def test_a_dead_letter_names_handler_tries_and_error() -> None:
    story = Story()
    run = story.start()
    for attempt, outcome in enumerate(["retry", "retry", "failed"], 1):
        story.step(run, 0, "a.think", attempt * 10, outcome, reason="ValueError: no", attempt=attempt)
    story.end(run, 30, "failed", "ValueError: no").tell("dead", run, 30, reason="ValueError: no")
    assert told(story) == ("not answered: dead letter at a.think after 3 tries: ValueError: no", False)


def test_a_send_nobody_delivers_is_told() -> None:
    text, ok = sending(lambda story, run: story.end(run, 11, "done", "no handler"))
    assert ok is False and f"nothing delivers '{SEND}'" in text


def test_a_send_that_was_held_or_whose_outcome_is_unknown_is_no_answer() -> None:
    def finish(outcome: str) -> Callable[[Story, str], object]:
        return lambda story, run: story.effect(run, 0, "deliver", 12, outcome).step(run, 0, "a.send", 13).end(run, 13)

    assert sending(finish("held")) == (
        "not answered: the reply was held: a.send did not make the call 'deliver'", False,
    )  # fmt: skip
    assert "nobody knows whether the reply arrived" in sending(finish("unknown"))[0]
    assert sending(finish("done"))[1] is True


def test_a_failed_delivery_that_a_retry_made_good_is_an_answer() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.answer", 10, "stop").end(run, 10)
    send = story.child(run, 0, 0, SEND, 10)
    story.step(send, 0, "a.send", 20, "failed", reason="away").step(send, 1, "b.log", 21).end(send, 21)
    assert told(story)[1] is False
    again = story.child(send, 0, "retry", SEND, 21)
    story.step(again, 0, "a.send", 1030, attempt=2).end(again, 1030)
    assert told(story)[1] is True


def test_what_nothing_handles_is_told() -> None:
    story = Story()
    run = story.start()
    story.end(run, 0, "done", "no handler")
    text, ok = told(story)
    assert text.startswith("not answered: nothing handles 'msg'") and ok is False


def test_a_run_that_sends_nothing_although_all_went_well_is_told() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.listen", 5, "stop").end(run, 5)
    assert told(story) == ("not answered: every step went well, but none sent a message", False)


@pytest.mark.parametrize(
    "live, text",
    [
        (Live("waiting", "R"), "msg has been waiting in lane qq:1:group-7 behind run R for 3.00 s"),
        (Live("queued", handler="a.b"), "a.b has been waiting for a worker for 3.00 s"),
        (Live("claimed", handler="a.b", attempt=2), "a.b (try 2) has been running for 3.00 s"),
        (Live("delayed", handler="a.b"), "a.b has been delayed for 3.00 s"),
    ],
)
def test_where_a_message_is_stuck_is_told(live: Live, text: str) -> None:
    story = Story()
    run = story.start(key="qq:1:group-7")
    assert told(story, live={run: live}, now=T0 + 3) == (f"not answered yet: {text}", None)


def test_a_pause_between_two_steps_is_no_failed_try() -> None:
    story = Story()
    run = story.start()
    story.step(run, 0, "a.polish", 5, next_delay=2.0)
    live = {run: Live("delayed", handler="a.deliver")}
    assert told(story, live=live, now=T0 + 3)[0].endswith("a.deliver has been delayed for 3.00 s")


def test_a_schedule_is_not_expected_to_answer() -> None:
    story = Story()
    run = story.start("cron.at.a.tidy")
    story.step(run, 0, "a.tidy", 5).end(run, 5)
    assert told(story) == ("done: 1 step", None)
    story.tell("dead", run, 5, reason="disk full")
    assert "disk full" in told(story)[0]


@given(st.sets(st.integers(0, 18), min_size=1))
def test_there_is_a_verdict_on_whatever_the_journal_still_holds(kept: set[int]) -> None:
    part = [entry for number, entry in enumerate(answered()[0].entries) if number in kept]
    if part:
        assert as_dict(build(part))["verdict"]


@pytest.mark.parametrize(
    "ms, text",
    [(0, "0 ms"), (0.25, "0.25 ms"), (3.04, "3.0 ms"), (85, "85 ms"), (1840, "1.84 s"), (59_940, "59.9 s"),
     (125_000, "2 min 5 s"), (11_400_000, "3 h 10 min")],
)  # fmt: skip
def test_times_are_written_as_a_reader_likes_them(ms: float, text: str) -> None:
    assert seconds(ms) == text


def test_a_try_that_only_tells_of_lost_ones_is_not_counted() -> None:
    story = Story()
    run = story.start()
    for attempt in (1, 2):
        story.step(run, 0, "a.b", attempt * 1000, "lost", took=0.0, attempt=attempt)
    story.step(run, 0, "a.b", 2001, "failed", attempt=3, reason="hung: not done within its 3 s, tried 2 times")
    story.end(run, 2001, "failed")
    assert "a.b after 2 tries" in verdict(build(story.entries).run).text


def delivered_by(outcome: str, reason: str = "", ended: float = T0 + 0.3) -> tuple[str, bool | None]:
    """Return the verdict on a message whose delivery, a detached run in the chat's own lane, came to `outcome`."""
    story = Story()
    run = story.start("msg")
    story.step(run, 0, "a.answer", 10, "stop").end(run, 10, "stopped", "no next()")
    send = story.child(run, 0, 0, SEND, 10)
    story.step(send, 0, "a.dispatch", 20).end(send, 20)
    lane = "send:console:main:group-7"
    delivery = RunSummary(
        "d1", "d1", "event", "a.send", lane, f"{send}/0", outcome, reason, started=T0 + 0.02, ended=ended
    )
    other = RunSummary("d2", "d2", "event", "memory.observe", "memory:7", f"{send}/0", "failed", ended=T0 + 1)
    return told(story, detached=[delivery, other])


def test_a_message_is_delivered_when_its_adapter_has_sent_it() -> None:
    assert delivered_by("done") == ("answered: 1 message delivered at +300 ms", True)


def test_a_delivery_that_was_rejected_is_no_answer() -> None:
    text, is_answered = delivered_by("failed", "RejectedError: blocked")
    assert text == "not answered: the reply did not arrive: a.send failed: RejectedError: blocked; see `lumia trace d1`"
    assert is_answered is False


def test_a_delivery_that_is_held_may_have_arrived() -> None:
    text, is_answered = delivered_by("failed", "UnknownSendError: cut off")
    assert text.startswith("not answered: nobody knows whether the reply arrived: a.send failed: UnknownSendError")
    assert is_answered is False


def test_a_delivery_that_goes_on_is_not_told_as_an_answer() -> None:
    assert delivered_by("", ended=0.0) == (
        "not answered yet: a.send has not ended, `lumia trace d1` shows where it is",
        None,
    )
