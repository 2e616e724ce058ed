"""Sends and accounts of adapters, on every transport: what is sent once, counted, found again, and settled."""

from __future__ import annotations

from pathlib import Path

import pytest

import lumia
from lumia import adapters, revival
from lumia.adapters import receipts, sends
from lumia.dead import DeadFilter
from lumia.settling import settle_done
from tests.conformance.conftest import Probe
from tests.support.wait import until


def say(bot: Probe, chat: Path, text: str) -> str:
    """Say something in a chat, by an account of this test's own; returns the send's state in the end."""
    to = lumia.payloads.destination(199, "probe", "group", str(chat))
    content = lumia.Box.any({"text": text, "reply_to": "asked"}, meta={"account": bot.scope})
    bot.wait(lumia.event.start(to, content))
    ended = {"sent", "rejected", "held", "failed"}
    until(lambda: ended & set(counts(bot)), timeout=30, what="it is known what became of the send")
    return next(iter(counts(bot)))


def counts(bot: Probe) -> dict[str, int]:
    return sends.counts("probe", bot.scope)


def platform(chat: Path) -> list[str]:
    return (chat / "sent").read_text().splitlines() if (chat / "sent").exists() else []


@pytest.mark.parametrize("text", ["one|two|three", "one|busy:two|three", "one|away:two|three"])
def test_each_part_is_sent_once_and_leaves_a_receipt(bot: Probe, tmp_path: Path, text: str) -> None:
    assert say(bot, tmp_path, text) == "sent"
    assert counts(bot) == {"sent": 1}
    assert platform(tmp_path) == ["one", "two", "three"]
    found = receipts.answers("probe", bot.scope, str(tmp_path), "asked")
    assert [one.message_id for one in found] == ["id of one", "id of two", "id of three"]
    assert receipts.sent("probe", bot.scope, str(tmp_path), "id of two") == found[1]


def test_what_is_refused_for_good_is_counted_as_that(bot: Probe, tmp_path: Path) -> None:
    assert say(bot, tmp_path, "one|never:two") == "rejected"
    assert counts(bot) == {"rejected": 1}
    assert platform(tmp_path) == ["one"]


def test_what_may_have_arrived_is_held_settled_and_goes_on(bot: Probe, tmp_path: Path) -> None:
    assert say(bot, tmp_path, "one|silent:two|three") == "held"
    (letter,) = bot.runtime.transport.dead(DeadFilter(error=str(tmp_path)))
    settle_done(bot.runtime, letter.run_id, "0:send 1", {"message_id": "seen"})
    assert counts(bot) == {"sent": 1}
    revival.retry(bot.runtime, letter)
    until(lambda: platform(tmp_path) == ["one", "three"], timeout=30, what="the rest is sent")
    until(lambda: receipts.sent("probe", bot.scope, str(tmp_path), "id of three"), timeout=30, what="its receipt")
    found = receipts.answers("probe", bot.scope, str(tmp_path), "asked")
    assert [one.message_id for one in found] == ["id of one", "seen", "id of three"]
    assert counts(bot) == {"sent": 1}


def test_how_an_account_fares_is_seen_by_every_process(bot: Probe) -> None:
    state = adapters.account("probe", bot.scope)
    state.connected("@probe")
    state.event()

    def told() -> bool:
        found = [one for one in adapters.accounts() if one.account == bot.scope]
        return [(one.state, one.detail, one.last_event is not None) for one in found] == [("connected", "@probe", True)]

    until(told, timeout=20, what="the account is connected")
