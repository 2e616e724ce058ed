"""Delivering to Slack: what is posted, where, how often, and what is known afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import lumia
from adapters.slack import sending
from adapters.slack.pace import BURST
from lumia.adapters import receipts, sends
from lumia.testing import Bot, ManualClock
from tests.adapters.slack.common import ANN, SLACK, TO, config
from tests.peers.slack import Fault, SlackPeer

ROOT, REPLY = "1718000000.500001", "1718000000.500002"


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


def bot_of(slack: SlackPeer, **more: Any) -> Bot:
    return Bot(SLACK, config=config(slack, **more), clock=ManualClock())


def send(bot: Bot, content: Any, to: str = TO, **meta: Any) -> None:
    bot.event(to, lumia.Box.any(content, meta={"account": "main", **meta}))


def states() -> dict[str, int]:
    return sends.counts("slack", "main")


class TestPosting:
    def test_a_text_is_posted_as_mrkdwn_without_previews(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            send(bot, "**hi** <all> [docs](https://a.b)")
            (posted,) = slack.posted
            assert (posted["channel"], posted["text"]) == ("C0GENERAL1", "*hi* &lt;all&gt; <https://a.b|docs>")
            assert (posted["unfurl_links"], posted["unfurl_media"]) == (False, False)
            assert "thread_ts" not in posted
            assert (states(), bot.dead) == ({"sent": 1}, [])

    def test_a_receipt_is_kept_under_slacks_id(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            send(bot, {"text": "hi", "reply_to": ROOT})
            chat = {"kind": "group", "id": "C0GENERAL1"}
            (found,) = receipts.answers("slack", "main", chat, ROOT)
            assert found.message_id == slack.posted[0]["ts"]

    def test_a_long_text_is_several_messages_in_order_and_no_burst(self, slack: SlackPeer) -> None:
        words = [f"Sentence number {number} of a long story. " * 20 for number in range(30)]
        with bot_of(slack) as bot:
            send(bot, "\n\n".join(words))
            assert len(slack.posted) == BURST
            bot.settle(30)
            assert all(len(one["text"]) <= 4000 for one in slack.posted)
            numbers = [int(word) for one in slack.posted for word in one["text"].split() if word.isdecimal()]
            assert numbers == sorted(numbers)
            assert set(numbers) == set(range(30))
            assert (states(), bot.dead) == ({"sent": 1}, [])

    @pytest.mark.parametrize(
        "how, meta, reply_to, thread",
        [
            ("auto", {}, ROOT, None),
            ("auto", {"thread": ROOT}, REPLY, ROOT),
            ("always", {}, ROOT, ROOT),
            ("always", {"thread": ROOT}, REPLY, ROOT),
            ("never", {"thread": ROOT}, REPLY, None),
        ],
    )
    def test_a_reply_goes_where_the_account_wants_it(
        self, slack: SlackPeer, how: str, meta: dict[str, str], reply_to: str, thread: str | None
    ) -> None:
        slack.replies[REPLY] = ROOT
        with bot_of(slack, reply_in_thread=how) as bot:
            send(bot, {"text": "hi", "reply_to": reply_to}, **meta)
            assert slack.posted[0].get("thread_ts") == thread

    def test_somebody_is_written_to_by_the_user_id(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            for _ in range(2):
                send(bot, "hi", f"msg.send, dest=6.slack.private-{ANN}")
            assert [one["channel"] for one in slack.posted] == ["D0ANN00001"] * 2
            assert len(slack.called("conversations.open")) == 1

    def test_mentions_are_exact_and_typed_ones_are_text(self, slack: SlackPeer) -> None:
        segments = [
            {"type": "mention", "data": {"id": ANN, "name": "Ann"}},
            {"type": "text", "data": {"text": " not <@U0BEN00001> nor <!channel>"}},
        ]
        with bot_of(slack) as bot:
            send(bot, {"segments": segments})
        assert slack.posted[0]["text"] == f"<@{ANN}> not &lt;@U0BEN00001&gt; nor &lt;!channel&gt;"


class TestFailing:
    def test_a_limit_is_waited_for_by_nobody_and_costs_no_try(self, slack: SlackPeer) -> None:
        slack.fail("chat.postMessage", *[Fault.limited(30)] * 20)
        with bot_of(slack) as bot:
            send(bot, "hi")
            assert (len(slack.calls), states()) == (1, {"retrying": 1})
            bot.settle(29)
            assert len(slack.calls) == 1
            bot.settle(20 * 30)
            assert len(slack.calls) == 21
            assert (len(slack.posted), states(), bot.dead) == (1, {"sent": 1}, [])

    def test_a_limited_chat_holds_up_no_other(self, slack: SlackPeer) -> None:
        slack.fail("chat.postMessage", Fault.limited(30))
        with bot_of(slack) as bot:
            send(bot, "first")
            send(bot, "second")
            send(bot, "elsewhere", "msg.send, dest=6.slack.group-G0PRIVATE1")
            assert [one["text"] for one in slack.posted] == ["elsewhere"]
            bot.settle(31)
            assert [one["text"] for one in slack.posted] == ["elsewhere", "first", "second"]

    def test_a_refusal_is_a_dead_letter_with_the_way_out_and_the_next_goes_through(self, slack: SlackPeer) -> None:
        slack.channels["C0OTHER001"] = {"member": False}
        with bot_of(slack) as bot:
            send(bot, "hi", "msg.send, dest=6.slack.group-C0OTHER001")
            assert "not_in_channel; invite the bot" in bot.dead[0].error
            assert len(slack.calls) == 1
            slack.channels["C0OTHER001"] = {"member": True}
            send(bot, "hi again", "msg.send, dest=6.slack.group-C0OTHER001")
            assert states() == {"rejected": 1, "sent": 1}

    @pytest.mark.parametrize("thread", [{}, {"thread": ROOT}])
    @pytest.mark.parametrize("policy", ["hold", "retry"])
    def test_after_a_lost_answer_the_channel_is_asked_whether_the_message_is_there(
        self, slack: SlackPeer, thread: dict[str, str], policy: str
    ) -> None:
        with bot_of(slack, on_unknown=policy) as bot:
            send(bot, "hi", **thread)
            slack.fail("chat.postMessage", Fault(cut="after"))
            send(bot, {"text": "hi", "reply_to": REPLY}, **thread)
            bot.settle(60)
            assert (len(slack.posted), states(), bot.dead) == (2, {"sent": 2}, [])
            chat = {"kind": "group", "id": "C0GENERAL1"}
            (found,) = receipts.answers("slack", "main", chat, REPLY)
            assert found.message_id == slack.posted[1]["ts"]

    @pytest.mark.parametrize("fault", [Fault(cut="before"), Fault(502, b"bad gateway"), Fault.error("internal_error")])
    def test_what_is_not_seen_there_may_still_arrive_and_is_held(self, slack: SlackPeer, fault: Fault) -> None:
        slack.fail("chat.postMessage", fault)
        with bot_of(slack) as bot:
            send(bot, "hi")
            bot.settle(3600)
            assert (len(slack.called("chat.postMessage")), states()) == (1, {"held": 1})
            assert "may have arrived in group C0GENERAL1" in bot.dead[0].error

    def test_or_sent_again_where_the_account_says_so(self, slack: SlackPeer) -> None:
        slack.scopes = "chat:write"
        slack.fail("chat.postMessage", Fault(cut="after"))
        with bot_of(slack, on_unknown="retry") as bot:
            send(bot, "hi")
            bot.settle(60)
            assert (len(slack.posted), states(), bot.dead) == (2, {"sent": 1}, [])

    def test_a_slack_that_is_away_is_tried_again_and_nothing_is_sent_twice(self, slack: SlackPeer) -> None:
        with SlackPeer() as gone:
            away = gone.api_url
        with Bot(SLACK, config=config(slack, api_url=away), clock=ManualClock()) as bot:
            send(bot, "hi")
            assert states() == {"retrying": 1}
            accounts = {"main": {**config(slack)["slack"]["accounts"]["main"]}}
            bot.runtime.config.settings("slack").accounts = accounts  # type: ignore[union-attr]
            bot.settle(60)
            assert (len(slack.posted), states()) == (1, {"sent": 1})

    def test_an_account_that_is_gone_sends_nothing(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            send(bot, "hi", account="other")
            assert "add [accounts.other] to config/slack.toml" in bot.dead[0].error
            assert slack.calls == []

    def test_nothing_to_say_is_told(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            send(bot, {"segments": [{"type": "onebot.json", "data": {}}]})
            assert "nothing in this message has a form in Slack" in bot.dead[0].error


class TestChanging:
    def posted(self, bot: Bot, slack: SlackPeer) -> str:
        send(bot, "hi")
        return str(slack.posted[0]["ts"])

    def test_a_message_gets_another_text(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            ts = self.posted(bot, slack)
            lumia.adapters.edit(TO, ts, "**better**", account="main")
            bot.settle()
            assert (slack.updated[0]["ts"], slack.updated[0]["text"]) == (ts, "*better*")

    def test_an_edit_with_a_lost_answer_is_made_again(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            ts = self.posted(bot, slack)
            slack.fail("chat.update", Fault(cut="after"))
            lumia.adapters.edit(TO, ts, "better", account="main")
            bot.settle(60)
            assert (len(slack.updated), bot.dead) == (2, [])

    def test_a_message_is_taken_back_once_even_if_the_answer_is_lost(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            ts = self.posted(bot, slack)
            slack.fail("chat.delete", Fault(cut="after"))
            lumia.adapters.delete(TO, ts, account="main")
            bot.settle(60)
            assert ([one["ts"] for one in slack.deleted], bot.dead) == ([ts], [])

    def test_a_message_of_somebody_else_is_told(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            lumia.adapters.edit(TO, "1718000000.999999", "better", account="main")
            bot.settle()
            assert "message_not_found; there is no such message, or it is not the bot's" in bot.dead[0].error


class TestFiles:
    def send(self, bot: Bot, data: bytes = b"\x89PNG\r\n\x1a\n123") -> None:
        blob = lumia.blobs.put(data, "image/png").as_dict()
        image = {"type": "image", "data": {"blob": blob, "name": "cat.png"}}
        send(bot, {"segments": [{"type": "text", "data": {"text": "our cat"}}, image]}, thread=ROOT)

    def test_a_file_is_uploaded_and_shared_in_the_thread(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            self.send(bot)
            (shared,) = slack.shared
            assert slack.uploads[shared["files"][0]["id"]] == b"\x89PNG\r\n\x1a\n123"
            assert (shared["channel_id"], shared["thread_ts"]) == ("C0GENERAL1", ROOT)
            assert (slack.posted[0]["text"], states()) == ("our cat", {"sent": 1})

    @pytest.mark.parametrize("method", ["files.getUploadURLExternal", "upload"])
    def test_until_it_is_shared_it_may_be_tried_again(self, slack: SlackPeer, method: str) -> None:
        slack.fail(method, Fault(500, b"oops"))
        with bot_of(slack) as bot:
            self.send(bot)
            bot.settle(60)
            assert (len(slack.shared), len(slack.posted), states()) == (1, 1, {"sent": 1})

    @pytest.mark.parametrize("cut, state", [("after", "sent"), ("before", "held")])
    def test_sharing_with_a_lost_answer_is_held_unless_the_file_is_seen(
        self, slack: SlackPeer, cut: str, state: str
    ) -> None:
        slack.fail("files.completeUploadExternal", Fault(cut=cut))
        with bot_of(slack) as bot:
            self.send(bot)
            bot.settle(60)
            assert (len(slack.shared), states()) == (int(cut == "after"), {state: 1})

    def test_a_shared_file_can_be_taken_back(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            self.send(bot)
            lumia.adapters.delete(TO, slack.shared[0]["files"][0]["id"], account="main")
            bot.settle()
            assert (slack.uploads, bot.dead) == ({}, [])


class TestCommands:
    SECRET = "AbCdEfGhIjKlMnOpQrStUvWx"

    def asked(self, bot: Bot, slack: SlackPeer) -> str:
        url = f"{slack.url}/commands/T0TEAM0001/6000/{self.SECRET}"
        lumia.store.of("slack").set(sending.answer_key("command-1"), url, scope="main", ttl=1800)
        return "msg.send, dest=6.slack.group-C0STRANGE1"

    def test_where_the_bot_is_no_member_the_asker_is_answered_alone(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            send(bot, {"text": "**42**", "reply_to": "command-1"}, self.asked(bot, slack))
            ((path, answer),) = slack.answers
            assert path.endswith(self.SECRET)
            assert answer == {"response_type": "ephemeral", "text": "*42*"}
            assert (states(), bot.dead) == ({"sent": 1}, [])
            journal = json.dumps([str(entry) for entry in bot.transport.tail("0", 0.0, 10_000)])
            assert "command-1" in journal
            assert self.SECRET not in journal

    def test_where_it_is_a_member_everybody_is(self, slack: SlackPeer) -> None:
        with bot_of(slack) as bot:
            self.asked(bot, slack)
            send(bot, {"text": "42", "reply_to": "command-1"})
            assert (len(slack.posted), slack.answers) == (1, [])

    def test_an_address_that_ran_out_is_told(self, slack: SlackPeer) -> None:
        slack.fail("response_url", Fault(404))
        with bot_of(slack) as bot:
            send(bot, {"text": "42", "reply_to": "command-1"}, self.asked(bot, slack))
            assert "response_url: expired_url" in bot.dead[0].error
            assert self.SECRET not in bot.dead[0].error
