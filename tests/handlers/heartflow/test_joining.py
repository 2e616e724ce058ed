"""Bursts and interruptions: what somebody adds while the bot waits or thinks is answered with the rest, once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lumia
from lumia import revival
from lumia.history import RunFilter
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import COMMANDS, PLUGINS, Model, lane, msg


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr("lumia.models.offline.answer", model)
    return model


@contextmanager
def heartflow(**config: Any) -> Iterator[Bot]:
    with Bot(*PLUGINS, config={"heartflow": config}, clock=ManualClock()) as bot:
        yield bot


def say(bot: Bot, text: str, number: int, *, after: float = 0.3, **fields: Any) -> str:
    """Let some time pass and write a message in the group's lane; returns its run."""
    bot.settle(after)
    fields = {"platform": "qq", "time": bot.clock.now(), "message_id": f"m{number}", **fields}
    payload = msg(text, **fields)
    return bot.start("msg", payload, key=lane(payload)).run_id


def ends(bot: Bot, *runs: str) -> list[tuple[str | None, str, list[str]]]:
    """Wait for everything; return (outcome, reason, replies) of each run."""
    bot.settle(120)
    found = [lumia.runs.result(run) for run in runs]
    return [(one.outcome, one.reason, list(one.replies)) for one in found if one is not None]


def test_what_one_person_writes_in_pieces_is_answered_once(model: Model) -> None:
    with heartflow() as bot:
        runs = [
            say(bot, "Lumia, one question", 1, mentions_bot=True),
            say(bot, "how long do eggs", 2),
            say(bot, "boil?", 3),
        ]
        assert ends(bot, *runs) == [
            ("done", "", ["fine"]),
            ("stopped", "joined: taken up together with message m1", []),
            ("stopped", "joined: taken up together with message m1", []),
        ]
    assert len(model.of("main")) == 1
    assert model.seen == [("Ann", "Lumia, one question"), ("Ann", "how long do eggs"), ("Ann", "boil?")]


def test_others_who_speak_meanwhile_have_their_own_turn(model: Model) -> None:
    with heartflow() as bot:
        first = say(bot, "Lumia, what time is it?", 1, mentions_bot=True)
        other = say(bot, "and what day?", 2, sender="8", name="Bob", mentions_bot=True)
        assert ends(bot, first, other) == [("done", "", ["fine"]), ("done", "", ["fine"])]
    assert model.seen[-1] == ("Bob", "and what day?")


def test_what_is_added_while_the_main_model_thinks_is_in_the_reply(model: Model) -> None:
    with heartflow() as bot:

        def interrupted(request: Any) -> str:
            if len(model.of("main")) == 1:
                with bot.runtime.activated():
                    started_apart(bot, "I mean in Lisbon", 2)
            return "fine"

        model.roles["main"] = interrupted
        first = say(bot, "Lumia, how is the weather?", 1, mentions_bot=True)
        bot.settle(120)
        later = [run for run in lumia.runs.tail("0") if run.kind == "end"]
        assert ends(bot, first) == [("done", "", ["fine"])]
        assert len(model.of("main")) == 2
        assert len(later) >= 2
    assert model.seen == [("Ann", "Lumia, how is the weather?"), ("Ann", "I mean in Lisbon")]


def started_apart(bot: Bot, text: str, number: int) -> None:
    """Accept a message as another process would: outside of the step that is running."""
    import threading

    payload = msg(text, platform="qq", time=bot.clock.now(), message_id=f"m{number}")

    def start() -> None:
        with bot.runtime.activated():
            lumia.pipe.start("msg", lumia.Box.any(payload), key=lane(payload))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()


def test_by_setting_everything_is_answered_in_its_turn(model: Model) -> None:
    with heartflow(while_thinking="next") as bot:
        runs = [say(bot, "hello", 1, mentions_bot=True), say(bot, "what is it?", 2, mentions_bot=True)]
        assert ends(bot, *runs) == [("done", "", ["fine"])] * 2
    assert len(model.of("main")) == 2


def test_a_command_a_picture_and_another_thread_are_not_joined(model: Model) -> None:
    with Bot(*PLUGINS, COMMANDS, clock=ManualClock()) as bot:
        runs = [
            say(bot, "Lumia?", 1, mentions_bot=True),
            say(bot, "/status", 2),
            say(bot, "", 3, media=[{"kind": "file"}]),
            say(bot, "elsewhere", 4, thread="t2"),
        ]
        reasons = [reason for _, reason, _ in ends(bot, *runs)]
    assert not any(reason.startswith("joined") for reason in reasons)


@lumia.event.consumer("msg.media.qq")
def fetch_media(content: lumia.Box[Any]) -> None:
    lumia.media.receive(content, lambda item, msg: b"GIF89a")


def test_words_with_a_picture_that_is_yet_to_be_fetched_are_joined_and_answered_once(model: Model) -> None:
    def send(text: str, number: int, **fields: Any) -> str:
        bot.settle(0.3)
        payload = msg(text, platform="qq", time=bot.clock.now(), message_id=f"m{number}", **fields)
        run_id = lumia.adapters.accept("onebot", payload)
        bot.settle()
        return run_id

    with Bot(*PLUGINS, fetch_media, clock=ManualClock()) as bot:
        runs = [
            send("Lumia, one question", 1, mentions_bot=True),
            send("what is this?", 2, media=[{"kind": "image", "ref": "a"}]),
            send("", 3, media=[{"kind": "image", "ref": "b"}]),
        ]
        assert bot.transport.run(runs[1]).id == "msg.media.qq"  # type: ignore[union-attr]
        ends(bot, *runs)
        reasons = [run.reason for run in bot.transport.history().find(RunFilter(id="msg")) if run.flow == "pipe"]
        assert bot.dead == []
    assert reasons.count("joined: taken up together with message m1") == 1
    assert len(model.of("main")) == 1
    assert model.seen[:2] == [("Ann", "Lumia, one question"), ("Ann", "what is this? (image)")]


def test_the_window_opens_with_every_send_and_lowers_the_threshold(model: Model) -> None:
    model.roles["small"] = {"relevance_score": 0.5, "reason": "perhaps"}
    with heartflow(burst_wait=0, attention_window=120, openness_floor=-10.0) as bot:
        assert ends(bot, say(bot, "nice day", 1))[0][:2] == ("stopped", "score 0.50 under 0.65: perhaps")
        say(bot, "@Lumia hello", 2, mentions_bot=True)
        assert ends(bot, say(bot, "and you?", 3))[0][0] == "done"
        bot.settle(121)
        assert ends(bot, say(bot, "how long does it keep?", 4))[0][:2] == ("stopped", "score 0.50 under 0.65: perhaps")


def test_a_retry_that_joins_more_asks_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with heartflow() as bot:
        thinking = sys.modules["handlers.heartflow.thinking"]
        working, failures = thinking.shift, [ConnectionResetError("the worker was lost")]

        def lost_once(*args: Any) -> Any:
            if failures:
                started_apart(bot, "I mean in Lisbon", 2)
                raise failures.pop()
            return working(*args)

        monkeypatch.setattr(thinking, "shift", lost_once)
        first = say(bot, "Lumia, how is the weather?", 1, mentions_bot=True)
        assert ends(bot, first) == [("done", "", ["fine"])]
    assert len(model.of("main")) == 2
    assert model.seen == [("Ann", "Lumia, how is the weather?"), ("Ann", "I mean in Lisbon")]


def test_a_command_between_two_lines_ends_the_turn(model: Model) -> None:
    with Bot(*PLUGINS, COMMANDS, clock=ManualClock()) as bot:
        runs = [
            say(bot, "Lumia, one question", 1, mentions_bot=True),
            say(bot, "/status", 2, sender="8"),
            say(bot, "how late is it?", 3, mentions_bot=True),
        ]
        (_, first, _), (_, command, _), (_, last, replies) = ends(bot, *runs)
    assert (first, command, last, replies) == ("", "answered a command: status", "", ["fine"])


def test_the_rules_count_what_is_joined(model: Model) -> None:
    with heartflow(rate_limit=3) as bot:
        runs = [say(bot, f"line {number}", number, mentions_bot=number == 0, after=0.1) for number in range(6)]
        reasons = [reason for _, reason, _ in ends(bot, *runs)]
    assert reasons[1:3] == ["joined: taken up together with message m0"] * 2
    assert all(reason.startswith("rate limit") for reason in reasons[3:])
    assert [text for _, text in model.seen] == ["line 0", "line 1", "line 2"]


def test_a_mention_among_what_is_joined_counts_for_the_whole_turn(model: Model) -> None:
    forced: list[bool] = []

    @lumia.pipe.on("msg", priv=30)
    def look(content: lumia.Box[Any]) -> None:
        forced.append(content.into()["force_engage"])
        lumia.utils.next()

    with Bot(*PLUGINS, look, clock=ManualClock()) as bot:
        say(bot, "who can help me?", 1)
        say(bot, "@Lumia?", 2, mentions_bot=True)
        bot.settle(60)
    assert forced == [True]


def test_a_turn_that_is_taken_up_late_ends_with_its_own_message(model: Model) -> None:
    model.roles["main"] = lumia.errors.ModelError("asleep")
    with heartflow(burst_wait=0) as bot:
        say(bot, "Lumia, what is 2 + 2?", 1, mentions_bot=True)
        bot.settle(600)
        del model.roles["main"]
        say(bot, "Lumia, and I am Bob", 2, sender="8", name="Bob", mentions_bot=True)
        bot.settle(60)
        (letter,) = bot.dead
        revival.retry(bot.runtime, letter)
        bot.settle(60)
    assert model.seen == [("Ann", "Lumia, what is 2 + 2?")]
