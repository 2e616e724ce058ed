"""Which dead letters a filter wants, and what can be retried."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import lumia
from lumia import revival
from lumia.dead import DeadFilter, DeadLetter
from lumia.errors import DeadLetterError
from lumia.testing import Bot

LETTER = DeadLetter("01abc", 2, "shop.pays", "order.42", "qq:7:group-1", "RuntimeError: shut", 3, "{}", 100.0)


@pytest.mark.parametrize(
    "wanted, fits",
    [
        ({}, True),
        ({"letters": ("01abc.2",)}, True),
        ({"letters": ("zz", "01a")}, True),
        ({"letters": ("1abc",)}, False),
        ({"id": "order.*"}, True),
        ({"id": "order"}, False),
        ({"handler": "*.pays"}, True),
        ({"handler": "pays"}, False),
        ({"group": "qq:7:group-1"}, True),
        ({"group": "group-1"}, True),
        ({"group": "group"}, False),
        ({"error": "runtimeERROR"}, True),
        ({"error": "open"}, False),
        ({"since": 100.0, "until": 100.0}, True),
        ({"since": 100.5}, False),
        ({"until": 99.5}, False),
        ({"id": "order.*", "error": "open"}, False),
    ],
)
def test_a_letter_fits_when_everything_asked_for_does(wanted: dict[str, object], fits: bool) -> None:
    assert DeadFilter(**wanted).matches(LETTER) is fits  # type: ignore[arg-type]


def test_fields_of_a_newer_version_are_left_out() -> None:
    assert DeadLetter.from_dict({**LETTER.as_dict(), "colour": "red"}) == LETTER


@lumia.pipe.on("order", priv=2, retry=1)
def pays(content: lumia.Box[int]) -> None:
    raise RuntimeError("shut")


@lumia.pipe.on("order", priv=1)
def ships(content: lumia.Box[int]) -> None:
    """Ship."""


def test_a_letter_whose_plan_is_lost_is_retried_as_planned_today() -> None:
    with Bot(pays, ships) as bot:
        bot.start("order", 1)
        letter = replace(bot.dead[0], plan="")
        bot.transport._dead[0] = letter
        run = revival.retry(bot.runtime, letter)
        request = bot.transport._runs[run].request
        assert [step.handler for step in request.plan.steps] == ["test.pays", "test.ships"]


def test_a_retry_begins_the_events_beside_it() -> None:
    with Bot(pays, ships) as bot:
        bot.start("order", 1)
        box = bot.dead[0].box
        letter = replace(bot.dead[0], beside=(("order.raw", box), ("order.seen", box)))
        assert DeadLetter.from_dict(json.loads(json.dumps(letter.as_dict()))) == letter
        bot.transport._dead[0] = letter
        before = set(bot.transport._runs)
        revival.retry(bot.runtime, letter)
        new = [run.request.id for name, run in bot.transport._runs.items() if name not in before]
        assert sorted(new) == ["order", "order.raw", "order.seen"]


def test_a_letter_without_plan_or_handler_says_why_it_cannot_be_retried() -> None:
    with Bot(pays, ships) as bot:
        bot.start("order", 1)
        letter = replace(bot.dead[0], plan="", handler="test.gone")
        bot.transport._dead[0] = letter
        with pytest.raises(DeadLetterError, match=r"today test\.gone does not handle 'order'"):
            revival.retry(bot.runtime, letter)
        assert bot.dead == [letter]


def test_a_box_signed_by_another_bot_is_refused_and_stays_a_letter() -> None:
    with Bot(pays, ships) as bot:
        bot.start("order", 1)
        letter = replace(bot.dead[0], box='{"d":"gAA=","t":"x.Y","s":"' + "0" * 64 + '"}')
        bot.transport._dead[0] = letter
        with pytest.raises(DeadLetterError, match="Box can't be read"):
            revival.retry(bot.runtime, letter)
        assert bot.dead == [letter]
