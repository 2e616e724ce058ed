"""Decisions: why the bot spoke or kept silent, kept with the step and bounded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.testing import Bot, ManualClock

PLUGIN = Path(__file__).parents[3] / "handlers" / "heartflow"
SCOPE = "console:console:group:g"


def module() -> Any:
    return sys.modules["handlers.heartflow.decisions"]


@lumia.pipe.on("msg", priv=500)
def note(content: lumia.Box[dict[str, Any]]) -> None:
    """Note what the message asks for."""
    payload = content.into()
    read = sys.modules["handlers.heartflow.message"].read
    layer, reason = payload["text"].split(" ", 1)
    module().note(read(payload), layer, layer == "L1", reason)
    if "fail" in reason:
        raise ValueError(reason)
    lumia.utils.stop(reason)


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot(PLUGIN, note, clock=ManualClock()) as bot:
        yield bot


def test_a_decision_tells_run_message_sender_layer_and_reason(bot: Bot) -> None:
    run = bot.send("L1 score 0.8 over\n0.65", sender="ann", group="g", message_id="m1")
    (found,) = module().of(SCOPE)
    assert found == module().Decision(
        run.run_id, "m1", "ann", "ann", "L1 score 0.8 over 0.65", bot.clock.now(), "L1", True, "score 0.8 over\n0.65"
    )


def test_the_newest_thirty_are_kept_and_asked_for_oldest_first(bot: Bot) -> None:
    for number in range(40):
        bot.send(f"L1 score {number}", group="g")
    assert [one.reason for one in module().of(SCOPE, 100)] == [f"score {number}" for number in range(10, 40)]
    assert [one.reason for one in module().of(SCOPE, 2)] == ["score 38", "score 39"]
    assert module().of(SCOPE, 0) == []


def test_a_step_that_fails_has_decided_nothing(bot: Bot) -> None:
    bot.send("L1 fail", group="g")
    assert module().of(SCOPE) == []


def test_a_flood_that_the_filter_drops_is_one_decision(bot: Bot) -> None:
    bot.send("L1 score 0.9", sender="bob", group="g")
    for number in range(50):
        bot.send(f"L0 rate limit: {number + 30} messages", sender="ann", group="g")
    bot.send("L0 rate limit: 30 messages", sender="bob", group="g")
    bot.send("L0 cooldown: 1 s", sender="bob", group="g")
    assert [(one.sender_id, one.word) for one in module().of(SCOPE)] == [
        ("bob", "score"), ("ann", "rate limit"), ("bob", "rate limit"), ("bob", "cooldown"),
    ]  # fmt: skip


def test_what_was_answered_is_known_and_bounded(bot: Bot) -> None:
    bot.send("L1 score 0.9", group="g", message_id="m1")
    for number in range(40):
        module().note_sent(SCOPE, f"m{number}")
    module().note_sent(SCOPE, None)
    assert module().sent(SCOPE) == {f"m{number}" for number in range(10, 40)}
    assert module().sent("console:console:group:other") == frozenset()
    assert [one.message_id for one in module().of(SCOPE)] == ["m1"]


def test_text_and_reason_are_cut(bot: Bot) -> None:
    bot.send("L1 " + "x" * 5000, group="g")
    (found,) = module().of(SCOPE)
    assert (len(found.text), len(found.reason)) == (80, 300)


def test_damaged_entries_are_passed_over(bot: Bot) -> None:
    for rubbish in ("text", 7, None, {"run_id": "r"}, {**dict.fromkeys(module().Decision.__slots__, "x")}):
        lumia.store.of("heartflow").append("decisions", rubbish, scope=SCOPE)
    bot.send("L1 ok", group="g")
    assert [one.reason for one in module().of(SCOPE)] == ["ok"]


@pytest.mark.parametrize(
    "reason, word",
    [
        ("score 0.31 under 0.65: why", "score"),
        ("cooldown: 1.2 s of 3 s left", "cooldown"),
        ("far from the topic: 0.2", "far from the topic"),
        ("addressed", "addressed"),
        ("", ""),
    ],
)
def test_a_reason_begins_with_a_stable_word(bot: Bot, reason: str, word: str) -> None:
    assert module().stable_word(reason) == word
