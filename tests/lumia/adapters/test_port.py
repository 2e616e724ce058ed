"""The port: what is accepted once and in order, what is sent, and what is known of it afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lumia
from lumia import adapters
from lumia.adapters import receipts, sends
from lumia.errors import PayloadError, RejectedError, UnreachableError
from lumia.testing import Bot, ManualClock

TO = "msg.send, dest=100.toy.group-7"
answers: list[Any] = []
"""What the toy platform answers, one after the other; an exception is raised."""
calls: list[tuple[str, str]] = []


def post(chat: str, text: str) -> dict[str, str]:
    """Send one message to the toy platform."""
    calls.append((chat, text))
    found = answers.pop(0) if answers else None
    if isinstance(found, Exception):
        raise found
    return {"message_id": f"m{len(calls)}"}


@lumia.event.consumer_re("msg.send, dest=100.toy.*")
def send(src: str, content: lumia.Box[Any]) -> None:
    adapters.dispatch("toy", src, content, account="main")


@lumia.event.consumer_re("msg.delete, dest=100.toy.*")
def delete(src: str, content: lumia.Box[Any]) -> None:
    adapters.dispatch("toy", src, content, account="main")


@lumia.event.consumer("toy.send", retry=adapters.RETRY)
def deliver(content: lumia.Box[Any]) -> None:
    with adapters.delivering(content) as out:
        for number, text in enumerate(adapters.parts(out.text, 40)):
            out.part(number, post, out.chat, text)


@lumia.event.consumer("toy.delete", retry=adapters.RETRY)
def take_back(content: lumia.Box[Any]) -> None:
    with adapters.delivering(content) as out:
        out.part(0, post, out.chat, f"delete {out.message_id}")


@pytest.fixture(autouse=True)
def quiet_platform() -> None:
    answers.clear()
    calls.clear()


def toy(*more: Any) -> Bot:
    return Bot(send, delete, deliver, take_back, *more, clock=ManualClock())


def msg(message_id: str = "1", **fields: Any) -> dict[str, Any]:
    return lumia.payloads.message(
        platform="toy", account="main", chat={"kind": "group", "id": "7"}, sender={"id": "ada"}, text="hi",
        message_id=message_id, **fields,
    )  # fmt: skip


def test_a_message_is_accepted_once_in_its_chats_lane_with_its_account_in_the_meta() -> None:
    seen = []

    @lumia.pipe.on("msg")
    def stage(content: lumia.Box[Any]) -> None:
        seen.append((content.meta, lumia.context.lane()))

    with Bot(stage) as bot:
        run_id = adapters.accept("toy", msg(thread="t"))
        assert adapters.accept("toy", msg(thread="t")) == run_id
        bot.settle()
    meta = {"account": "main", "chat": {"kind": "group", "id": "7"}, "thread": "t"}
    assert seen == [(meta, "toy:main:group-7")]


def test_what_the_platform_sent_is_an_event_of_the_same_start() -> None:
    seen = []

    @lumia.event.consumer("msg.toy")
    def raw(content: lumia.Box[Any]) -> None:
        seen.append(content.into())

    with Bot(raw) as bot:
        adapters.accept("toy", msg(), raw={"update_id": 4})
        bot.settle()
    assert seen == [{"update_id": 4}]


LINK = "https://cdn.discordapp.com/attachments/1/2/cat.png?ex=66f1&is=66f0&hm=0f3a9c1de2b4f5a69788"


@pytest.mark.parametrize("over", [{"pad": "x" * 2_000_000}, {"pad": json.loads("[" * 900 + "]" * 900)}, {}])
def test_links_are_sealed_and_a_twin_that_fits_no_box_is_left_behind(over: dict[str, Any]) -> None:
    seen: list[Any] = []

    @lumia.event.consumer("msg.toy")
    def raw(content: lumia.Box[Any]) -> None:
        seen.append(content.into())

    @lumia.pipe.on("msg")
    def stage(content: lumia.Box[Any]) -> None:
        seen.append(content.into())

    with Bot(raw, stage) as bot:
        adapters.accept("toy", msg(media=[{"kind": "image", "url": LINK}]), raw={"url": LINK, **over})
        bot.settle()
        told, twins = [one for one in seen if "text" in one], [one for one in seen if "text" not in one]
        assert lumia.media.link(told[0]["media"][0]) == LINK and "0f3a9c1de2b4" not in str(seen)
        assert [one["url"].rpartition("=")[2] for one in twins] == ([] if over.get("pad", [""])[0] == "x" else ["***"])


def test_a_message_with_files_waits_for_them_only_where_somebody_fetches_them() -> None:
    media = [{"kind": "image", "ref": "f1"}]
    seen = []

    @lumia.event.consumer("msg.media.toy")
    def fetch(content: lumia.Box[Any]) -> None:
        seen.append("fetching")

    @lumia.pipe.on("msg")
    def stage(content: lumia.Box[Any]) -> None:
        seen.append("msg")

    for handlers in ((fetch, stage), (stage,)):
        with Bot(*handlers) as bot:
            adapters.accept("toy", msg(media=media))
            bot.settle()
    assert seen == ["fetching", "msg"]


def test_a_send_is_counted_and_leaves_receipts_by_which_it_is_found() -> None:
    with toy() as bot:
        bot.event(TO, lumia.Box.any({"text": "a" * 30 + ". " + "b" * 30, "reply_to": "1"}))
        assert [text[0] for _, text in calls] == ["a", "b"]
        assert sends.counts("toy", "main") == {"sent": 1}
        chat = {"kind": "group", "id": "7"}
        assert [one.message_id for one in receipts.answers("toy", "main", chat, "1")] == ["m1", "m2"]
        found = receipts.sent("toy", "main", "7", "m2")
        assert found is not None and (found.part, found.reply_to) == (1, "1")
        assert receipts.sent("toy", "main", chat, "m9") is None


def test_the_account_of_the_box_sends_and_without_any_nothing_is_sent() -> None:
    with toy() as bot:
        bot.event(TO, lumia.Box.any("hi", meta={"account": "other"}))
        assert sends.counts("toy", "other") == {"sent": 1}
        with pytest.raises(PayloadError, match="which account of toy"):
            adapters.dispatch("toy", TO, lumia.Box.any("hi"))


def test_one_idempotency_key_is_one_send() -> None:
    with toy() as bot:
        for _ in range(2):
            bot.event(TO, lumia.Box.any({"text": "hi", "idempotency_key": "k"}))
        assert len(calls) == 1
        assert sends.counts("toy", "main") == {"sent": 1}


def test_two_that_look_for_one_idempotency_key_at_the_same_moment_are_one_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sends, "find", lambda send_id: None)
    with toy() as bot:
        for _ in range(2):
            bot.event(TO, lumia.Box.any({"text": "hi", "idempotency_key": "k"}))
        assert len(calls) == 1


def test_what_surely_did_not_arrive_is_tried_again_and_a_part_that_did_is_not() -> None:
    answers.extend([None, UnreachableError("no route")])
    with toy() as bot:
        bot.event(TO, lumia.Box.any("a" * 30 + ". " + "b" * 30))
        assert sends.counts("toy", "main") == {"retrying": 1}
        bot.settle(2.0)
        assert [text[0] for _, text in calls] == ["a", "b", "b"]
        assert sends.counts("toy", "main") == {"sent": 1}


def test_what_the_platform_refuses_for_good_is_a_dead_letter_at_once() -> None:
    answers.append(RejectedError("the bot was blocked by the user"))
    with toy() as bot:
        bot.event(TO, lumia.Box.any("hi"))
        assert sends.counts("toy", "main") == {"rejected": 1}
        assert [letter.error for letter in bot.dead] == ["RejectedError: the bot was blocked by the user"]


def test_what_can_not_even_be_asked_for_was_surely_not_sent() -> None:
    answers.append(PayloadError("no account is called main any more"))
    with toy() as bot:
        bot.event(TO, lumia.Box.any("hi"))
        assert sends.counts("toy", "main") == {"rejected": 1}
        assert [letter.error for letter in bot.dead] == ["RejectedError: no account is called main any more"]


def test_what_may_have_arrived_is_held_and_says_where() -> None:
    answers.append(TimeoutError("no answer in 10 s"))
    with toy() as bot:
        bot.event(TO, lumia.Box.any("hi"))
        bot.settle(600)
        assert len(calls) == 1
        assert sends.counts("toy", "main") == {"held": 1}
        (letter,) = bot.dead
        assert letter.error.startswith("UnknownSendError: may have arrived in group 7 by toy/main: TimeoutError")


def test_the_policy_retry_sends_again_what_may_have_arrived() -> None:
    answers.append(TimeoutError("no answer in 10 s"))

    @lumia.event.consumer("toy.send", retry=adapters.RETRY)
    def deliver(content: lumia.Box[Any]) -> None:
        with adapters.delivering(content, policy="retry") as out:
            out.part(0, post, out.chat, out.text)

    with Bot(send, deliver, clock=ManualClock()) as bot:
        bot.event(TO, lumia.Box.any("hi"))
        bot.settle(2)
        assert (len(calls), sends.counts("toy", "main")) == (2, {"sent": 1})


def test_a_message_is_taken_back_in_the_same_lane() -> None:
    with toy() as bot:
        adapters.delete(TO, "m1")
        bot.settle()
        assert calls == [("7", "delete m1")]
        assert sends.counts("toy", "main") == {}
