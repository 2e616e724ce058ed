"""What an operator found out about a held call goes into the ledger, and the next try goes on with it."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from lumia.errors import EffectError
from lumia.settling import settle_done, settle_failed, shown
from lumia.testing import Bot, ManualClock

CLOCK = ManualClock()
calls: list[int] = []
got: list[Any] = []


def charge() -> int:
    calls.append(1)
    raise OSError("no answer")


@lumia.pipe.on("pay", retry=lumia.Retry(attempts=5, backoff=30))
def pays(content: lumia.Box[Any]) -> None:
    got.append(lumia.effect("charge", charge, policy="hold"))


def held(bot: Bot) -> str:
    calls.clear()
    got.clear()
    run: str = lumia.pipe.start("pay", lumia.Box.any(1))
    bot.transport.drain(bot.runtime)  # the first try; the second one waits for its delay
    assert bot.transport.effects() == [(run, "0:charge", bot.transport.effect(run, "0:charge"))]
    return run


def test_a_call_settled_as_done_is_not_made_and_its_result_is_what_was_said() -> None:
    with Bot(pays, clock=CLOCK) as bot:
        run = held(bot)
        settle_done(bot.runtime, run, "0:charge", {"receipt": 17, "api_key": "abc"})
        CLOCK.move(60)
        bot.settle()
        assert got == [{"receipt": 17, "api_key": "abc"}] and len(calls) == 1
        entries = [entry for entry in bot.transport.tail("0", 0, 99) if entry.kind == "effect"]
        assert [(entry.outcome, entry.detail.get("by")) for entry in entries] == [
            ("unknown", None), ("done", "hand"), ("replayed", None),
        ]  # fmt: skip
        assert "abc" not in entries[1].dump() and entries[1].detail["hidden"] is True
        record = bot.transport.effect(run, "0:charge")
        assert record is not None and shown(bot.runtime, record) == {"receipt": 17, "api_key": "***"}


def test_a_call_settled_as_failed_is_made() -> None:
    with Bot(pays, clock=CLOCK) as bot:
        settle_failed(bot.runtime, held(bot), "0:charge")
        CLOCK.move(60)
        bot.settle()
        assert len(calls) == 2


@pytest.mark.parametrize("name", ["charge", ":charge", "x:charge", "0:"])
def test_an_effect_is_named_by_step_and_key(name: str) -> None:
    with Bot(pays) as bot, pytest.raises(EffectError, match="named STEP:KEY"):
        settle_failed(bot.runtime, "r", name)
