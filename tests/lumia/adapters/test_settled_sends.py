"""A held send in the hands of an operator: settled, retried or dropped, its state follows."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from lumia import adapters, revival
from lumia.adapters import receipts, sends
from lumia.settling import settle_done, settle_failed
from lumia.testing import Bot, ManualClock

TO = "msg.send, dest=100.toy.group-7"
calls: list[str] = []


def post(text: str) -> dict[str, str]:
    calls.append(text)
    if text == "second" and calls.count("second") == 1:
        raise TimeoutError("no answer in 10 s")
    return {"message_id": f"m-{text}"}


@lumia.event.consumer_re("msg.send, dest=100.toy.*")
def send(src: str, content: lumia.Box[Any]) -> None:
    adapters.dispatch("toy", src, content, account="main")


@lumia.event.consumer("toy.send", retry=adapters.RETRY)
def deliver(content: lumia.Box[Any]) -> None:
    with adapters.delivering(content) as out:
        for number, text in enumerate(("first", "second", "third")):
            out.part(number, post, text)


@pytest.fixture
def bot() -> Any:
    calls.clear()
    with Bot(send, deliver, clock=ManualClock()) as bot:
        bot.event(TO, {"text": "all three", "reply_to": "q"})
        yield bot


def held(bot: Bot) -> tuple[str, str]:
    """Return run and name of the one effect that nobody knows the outcome of."""
    ((run_id, name, record),) = bot.transport.effects()
    assert (record.state, record.policy) == ("unknown", "hold")
    return run_id, name


def test_a_held_send_names_itself_in_the_ledger_and_in_its_dead_letter(bot: Bot) -> None:
    run_id, name = held(bot)
    assert name == "0:send 1"
    send = sends.of_run(bot.transport, run_id)
    assert send is not None and (send.where, send.state) == ("group 7 by toy/main", "held")
    assert send.why.startswith("UnknownSendError: may have arrived in group 7 by toy/main")
    assert [one.message_id for one in receipts.answers("toy", "main", "7", "q")] == ["m-first"]


def test_it_is_sent_once_somebody_says_so_and_the_retry_sends_the_rest(bot: Bot) -> None:
    settle_done(bot.runtime, *held(bot), {"message_id": "m-seen"})
    assert sends.counts("toy", "main") == {"sent": 1}
    revival.retry(bot.runtime, bot.dead[0])
    bot.settle()
    assert calls == ["first", "second", "third"]
    assert sends.counts("toy", "main") == {"sent": 1}
    found = [one.message_id for one in receipts.answers("toy", "main", "7", "q")]
    assert found == ["m-first", "m-seen", "m-third"]


def test_it_has_failed_when_it_did_not_arrive_and_the_retry_sends_it(bot: Bot) -> None:
    settle_failed(bot.runtime, *held(bot))
    assert sends.counts("toy", "main") == {"failed": 1}
    revival.retry(bot.runtime, bot.dead[0])
    bot.settle()
    assert calls == ["first", "second", "second", "third"]
    assert sends.counts("toy", "main") == {"sent": 1}


def test_it_stays_unknown_when_its_letter_is_dropped(bot: Bot) -> None:
    revival.drop(bot.runtime, bot.dead[0], "nobody waits for it")
    assert sends.counts("toy", "main") == {"unknown": 1}


def test_a_retry_without_settling_is_held_again(bot: Bot) -> None:
    revival.retry(bot.runtime, bot.dead[0])
    bot.settle()
    assert calls == ["first", "second"]
    assert sends.counts("toy", "main") == {"held": 1}
    assert "may have arrived in group 7" in bot.dead[0].error and "lumia effects settle" in bot.dead[0].error
