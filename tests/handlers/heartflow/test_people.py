"""People are never confused: quotes, changed nicknames, one nickname of two people, the bot's own echo, other bots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lumia
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import PLUGINS, Model, msg


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr("lumia.models.offline.answer", model)
    return model


@pytest.fixture
def bot(model: Model) -> Iterator[Bot]:
    config = {"heartflow": {"reply_in_groups": "mention", "bots": ["console:99"]}}
    with Bot(*PLUGINS, config=config, clock=ManualClock()) as bot:
        yield bot


def say(bot: Bot, text: str, sender: str, name: str, number: int, **fields: Any) -> Any:
    return bot.start("msg", msg(text, sender=sender, name=name, message_id=f"m{number}", **fields))


def test_a_quote_names_whom_it_answers_and_the_words_stay_the_quoters(bot: Bot, model: Model) -> None:
    say(bot, "the bridge is closed", "1", "Ann", 1)
    say(bot, "@Lumia is that true?", "2", "Bob", 2, reply_to="m1", mentions_bot=True)
    assert model.seen == [("Ann", "the bridge is closed"), ("Bob", "(replying to Ann) @Lumia is that true?")]


def test_a_quote_of_the_bot_names_the_bot(bot: Bot, model: Model) -> None:
    say(bot, "@Lumia hi", "1", "Ann", 1, mentions_bot=True)
    say(bot, "@Lumia why?", "2", "Bob", 2, reply_to="bot:m1", mentions_bot=True)
    assert model.seen[-1] == ("Bob", "(replying to Lumia) @Lumia why?")


def test_nobody_can_write_a_quote_that_was_none(bot: Bot, model: Model) -> None:
    say(bot, "(replying to Ann) she said yes @Lumia", "2", "Bob", 1, mentions_bot=True)
    assert model.seen == [("Bob", "[replying to Ann) she said yes @Lumia")]


def test_who_changes_the_nickname_stays_one_person(bot: Bot, model: Model) -> None:
    say(bot, "I have a cat", "1", "Ann", 1)
    say(bot, "I have a dog", "2", "Bob", 2)
    say(bot, "@Lumia what have I?", "1", "Queen of Cats", 3, mentions_bot=True)
    assert [name for name, _ in model.seen] == ["Queen of Cats", "Bob", "Queen of Cats"]


def test_who_takes_anothers_nickname_is_told_apart(bot: Bot, model: Model) -> None:
    say(bot, "I owe nobody anything", "1", "Ann", 1)
    say(bot, "I owe Bob ten euros", "2", "ann", 2)
    say(bot, "@Lumia what do I owe?", "1", "Ann", 3, mentions_bot=True)
    assert [name for name, _ in model.seen] == ["Ann (1)", "ann (2)", "Ann (1)"]


def test_polish_and_planner_see_the_same_names(bot: Bot, model: Model) -> None:
    say(bot, "one", "1", "Ann", 1)
    say(bot, "@Lumia what did we say?", "2", "Ann", 2, mentions_bot=True)
    for role in ("main", "polish"):
        shown = [line.name for line in model.of(role)[-1].messages if line.role == "user"]
        assert shown == ["Ann (1)", "Ann (2)"]


def test_the_bot_does_not_answer_itself(bot: Bot, model: Model) -> None:
    result = say(bot, "@Lumia fine", "me", "Lumia", 1, mentions_bot=True)
    assert (result.outcome, result.reason) == ("stopped", "own message: the bot's account has sent it")
    assert model.requests == []


def test_another_bot_is_heard_and_not_answered(bot: Bot, model: Model) -> None:
    result = say(bot, "@Lumia rolled a 6", "99", "DiceBot", 1, mentions_bot=True)
    assert (result.outcome, result.reason, result.replies) == ("stopped", "another bot: 99", [])
    say(bot, "@Lumia what was rolled?", "1", "Ann", 2, mentions_bot=True)
    assert model.seen[0] == ("DiceBot", "@Lumia rolled a 6")


def test_who_repeats_the_bot_starts_no_endless_talk(bot: Bot, model: Model) -> None:
    model.answer = "The museum opens at nine."
    say(bot, "@Lumia when does it open?", "1", "Ann", 1, mentions_bot=True)
    echo = say(bot, "@Lumia The museum opens at nine!", "3", "Echo", 2, mentions_bot=True)
    assert (echo.outcome, echo.reason) == ("stopped", "an echo of what the bot said")
    assert say(bot, "@Lumia and when does it close?", "1", "Ann", 3, mentions_bot=True).replies


def test_what_is_remembered_names_its_sender(bot: Bot, model: Model) -> None:
    updates: list[dict[str, Any]] = []

    @lumia.event.consumer("memory.update")
    def take(content: lumia.Box[Any]) -> None:
        updates.append(content.into())

    thought = {"reply_bias": None, "memory_updates": [{"topic": "cats", "content": "likes cats", "importance": 0.6}]}
    model.roles["main"] = thought
    with Bot(*PLUGINS, take, clock=ManualClock()) as bot:
        say(bot, "I like cats", "1", "Ann", 1)
        say(bot, "me, too", "2", "Ann", 2)
    assert [(one["origin"]["sender"]["id"], one["content"]) for one in updates] == [
        ("1", "likes cats"), ("2", "likes cats"),
    ]  # fmt: skip
