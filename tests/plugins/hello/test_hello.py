"""The example plugin: commands before heartflow, a count that is never doubled, a fresh start at midnight."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lumia
from lumia.testing import Bot, ManualClock

ROOT = Path(__file__).parents[3]
HELLO, HEARTFLOW = ROOT / "plugins" / "hello", ROOT / "handlers" / "heartflow"


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot(HELLO, HEARTFLOW, clock=ManualClock()) as bot:
        yield bot


@pytest.mark.parametrize("text", ["!ping", " !ping\n"])
def test_a_command_is_answered_before_heartflow_sees_it(bot: Bot, text: str) -> None:
    result = bot.send(text, group="g")
    assert (result.outcome, result.reason, result.replies) == ("stopped", "answered a command", ["pong"])
    assert [step.handler for step in result.steps] == [
        "hello.commands", "hello.count_sent", "heartflow.hear_own",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["hello", "!pong", "!roll 2d", "!roll 100d6", "", "!roll ٢d6"])
def test_everything_else_goes_on_to_heartflow(bot: Bot, text: str) -> None:
    steps = [step.handler for step in bot.send(text, group="g").steps]
    assert steps[:2] == ["hello.commands", "heartflow.filter_message"]


def test_a_throw_adds_up_and_stays_within_its_dice(bot: Bot) -> None:
    for _ in range(20):
        (reply,) = bot.send("!roll 3d6").replies
        dice, total = re.fullmatch(r"(\d) \+ (\d) \+ (\d) = (\d+)", reply), int(reply.rpartition(" ")[2])
        assert dice is not None
        assert all(1 <= int(dice[place]) <= 6 for place in (1, 2, 3))
        assert total == sum(int(dice[place]) for place in (1, 2, 3))


@pytest.mark.parametrize("text", ["!roll 0d6", "!roll 2d0"])
def test_a_throw_of_nothing_is_explained(bot: Bot, text: str) -> None:
    assert bot.send(text).replies == ["a throw needs at least one die with one side, like !roll 2d6"]


def test_whatever_the_bot_sends_is_counted_and_the_count_starts_anew_at_midnight(bot: Bot) -> None:
    for text in ("!ping", "hello", "!ping"):
        bot.send(text)
    assert bot.send("!stats").replies == ["sent today: 3, yesterday: 0"]
    bot.event("cron.at.hello.new_day", {"schedule": "cron.at.hello.new_day", "due": lumia.system.now()})
    assert bot.send("!stats").replies == ["sent today: 0, yesterday: 4"]


def test_a_command_in_a_group_is_answered_in_that_group(bot: Bot) -> None:
    run = bot.send("!ping", group="tea-room").run_id
    ids = [entry.id for entry in lumia.runs.tail("0") if entry.root_id == run and entry.kind == "start"]
    assert "msg.send, dest=1.console.group-tea%2Droom" in ids
