"""The lines of a chat: numbered without gaps, whoever lets the bot speak, and never too much for a Box."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from handlers.heartflow.lines import line_of
from handlers.heartflow.message import read
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import PLUGINS, Model, lane, msg

SCOPE = "console:me:group:g-1"
TO = "msg.send, dest=1.console.group-g%2D1"


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr("lumia.models.offline.answer", model)
    return model


def kept() -> list[tuple[int, str]]:
    return [(one["n"], one["text"]) for one in lumia.store.of("heartflow").items("lines", scope=SCOPE)]


@pytest.mark.parametrize(
    "text, segments, shown",
    [
        ("look", ["text", "image"], "look (image)"),
        ("look [image] there", ["text", "image", "text"], "look [image] there"),
        ("[image]", ["image"], "[image]"),
        ("", ["image", "video"], "(image) (video)"),
        ("hi :smile:", ["text", "emoji"], "hi :smile:"),
        ("", ["onebot.json"], "(onebot.json)"),
    ],
)
def test_a_line_shows_each_file_once(text: str, segments: list[str], shown: str) -> None:
    payload = msg(text, segments=[{"type": kind, "data": {}} for kind in segments])
    assert line_of(read(payload), 0.0, 100).text == shown


def test_what_a_plugin_lets_the_bot_say_from_elsewhere_is_numbered_in_the_chats_lane() -> None:
    with Bot(*PLUGINS, clock=ManualClock(), config={"heartflow": {"reply_in_groups": "mention"}}) as bot:
        payload = msg("good morning")
        for number in range(5):
            bot.start("msg", {**payload, "message_id": f"m{number}"}, key=lane(payload))
            lumia.event.start(TO, lumia.Box.any({"text": f"reminder {number}"}, meta={"account": "me"}))
        bot.settle(60)
        assert sorted(number for number, _ in kept()) == list(range(1, 11))
        assert {text for _, text in kept()} == {"good morning", *(f"reminder {number}" for number in range(5))}


def test_a_send_of_another_lane_does_not_wait_for_the_chats() -> None:
    sent: list[str] = []

    @lumia.event.consumer_re("msg.send, dest=*")
    def deliver(src: str, content: lumia.Box[Any]) -> None:
        sent.append(content.into()["text"])

    with Bot(*PLUGINS, deliver, clock=ManualClock(), config={"heartflow": {"burst_wait": 5}}) as bot:
        payload = msg("Lumia?", platform="qq", mentions_bot=True)
        bot.start("msg", payload, key=lane(payload))
        to = "msg.send, dest=3.qq.group-g%2D1"
        bot.event(to, {"text": "a reminder"})
        assert sent == ["a reminder"]
        bot.settle(60)
        assert sent == ["a reminder", "fine"]


def test_long_lines_are_left_out_of_the_package_before_it_is_too_large_for_a_box(model: Model) -> None:
    config: dict[str, dict[str, Any]] = {
        "heartflow": {"context_lines": 200, "max_text_chars": 4000},
        "lumia": {"models.embedding.model": "offline"},  # a real one takes a second for each of these lines
    }
    with Bot(*PLUGINS, clock=ManualClock(), config=config) as bot:
        for number in range(80):
            bot.start("msg", msg("长" * 4000, message_id=f"m{number}"))
        assert bot.dead == []
        assert 40 < len(model.seen) < 60, "of each answer and its question, 200 would have been shown"
        assert model.seen[-1] == ("Ann", "长" * 4000)


def test_a_reply_of_many_parts_goes_out_within_the_lanes_patience(model: Model) -> None:
    model.roles["polish"] = "\n\n".join("word " * 39 for _ in range(20))
    config = {"heartflow": {"max_parts": 20, "part_chars": 200, "max_reply_chars": 20000}}
    with Bot(*PLUGINS, clock=ManualClock(), config=config) as bot:
        run = bot.start("msg", msg("tell me more")).run_id
        bot.settle(120)
        result = lumia.runs.result(run)
        assert result is not None and (result.outcome, len(result.replies)) == ("done", 20)
        assert bot.dead == []


def test_a_group_of_very_many_people_is_kept_and_shown_within_bounds(model: Model) -> None:
    config = {"heartflow": {"reply_in_groups": "mention", "context_lines": 10, "context_cap": 60}}
    with Bot(*PLUGINS, clock=ManualClock(), config=config) as bot:
        for number in range(150):
            said = msg(f"I am number {number}", sender=f"u{number}", name="Ann", message_id=f"m{number}")
            bot.start("msg", said, key=lane(said))
        asked = msg("@Lumia who are we?", sender="u9999", message_id="last", mentions_bot=True)
        assert bot.start("msg", asked, key=lane(asked)).replies == ["fine"]
        assert bot.dead == []
        assert len(kept()) <= 61
    shown = "\n".join(line.content for line in model.of("main")[-1].messages)
    assert len(model.seen) == 10 and len({name for name, _ in model.seen}) == 10
    assert len(shown) < 4_000


def test_a_flood_of_one_sender_costs_little_and_leaves_a_reason_for_each_message(model: Model) -> None:
    with Bot(*PLUGINS, clock=ManualClock(), config={"heartflow": {"rate_limit": 5}}) as bot:
        flood = [msg("x" * 4000, platform="qq", message_id=f"m{number}") for number in range(60)]
        runs = [bot.start("msg", one, key=lane(one)).run_id for one in flood]
        bot.settle(120)
        ends = [lumia.runs.result(run) for run in runs]
        assert all(one is not None and one.reason.startswith("rate limit: ") for one in ends[5:])
        assert len(model.requests) <= 10
        assert len(lumia.store.of("heartflow").items("decisions", scope="qq:me:group:g-1")) <= 30
