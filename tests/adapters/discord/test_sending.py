"""What the bot sends: once, in order, within Discord's limits, and with a reason where it can't be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lumia
from adapters.discord import asking
from adapters.discord.api import shared
from lumia.adapters import sends
from lumia.testing import Bot, ManualClock
from tests.adapters.discord.conftest import DISCORD, Start
from tests.peers.discord import ADA, ME, Discord, Fault
from tests.support.wait import until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def bot(discord: Discord) -> Iterator[Bot]:
    config = {"discord": {"accounts": {"main": discord.settings}}}
    with Bot(DISCORD, config=config, clock=ManualClock()) as running:
        yield running
        shared.close()


def to(discord: Discord, channel: str = "", kind: str = "group") -> str:
    return lumia.payloads.destination(5, "discord", kind, channel or discord.channel)


def send(bot: Bot, dest: str, content: Any) -> None:
    bot.event(dest, lumia.Box.any(content, meta={"account": "main"}))
    bot.settle(30)


def states() -> dict[str, int]:
    return sends.counts("discord", "main")


class TestMessages:
    def test_a_long_text_comes_in_parts_each_with_a_nonce(self, bot: Bot, discord: Discord) -> None:
        text = "\n\n".join(f"{number}: " + "wörd " * 150 for number in range(6))
        send(bot, to(discord), {"text": text, "reply_to": "12345678901234567"})
        posted, asked = discord.rest.posted(discord.channel), discord.rest.requests("POST")
        assert len(posted) > 1
        assert "".join(" ".join(posted).split()) == "".join(text.split())
        bodies = [one.body for one in asked]
        assert len({body["nonce"] for body in bodies}) == len(posted)
        assert all(body["enforce_nonce"] is True and len(body["nonce"]) <= 25 for body in bodies)
        assert bodies[0]["message_reference"] == {"message_id": "12345678901234567", "fail_if_not_exists": False}
        assert "message_reference" not in bodies[1]
        assert states() == {"sent": 1}

    def test_only_segments_ping_and_a_models_text_does_not(self, bot: Bot, discord: Discord) -> None:
        segments = [
            {"type": "reply", "data": {"id": "55"}},
            {"type": "mention", "data": {"id": ADA["id"], "name": "Ada"}},
            {"type": "text", "data": {"text": " @everyone <@5>"}},
            {"type": "emoji", "data": {"id": "9", "name": "enigma"}},
        ]
        send(bot, to(discord), {"segments": segments})
        (asked,) = discord.rest.requests("POST")
        assert asked.body["content"] == f"<@{ADA['id']}> @everyone <@5><:enigma:9>"
        assert asked.body["allowed_mentions"] == {"parse": [], "users": [ADA["id"]], "replied_user": False}
        assert asked.body["message_reference"]["message_id"] == "55"
        assert asked.headers["user-agent"].startswith("DiscordBot (")

    def test_files_go_up_from_the_blob_store(self, bot: Bot, discord: Discord) -> None:
        blob = lumia.blobs.put(PNG, "image/png").as_dict()
        image = {"type": "image", "data": {"blob": blob, "name": "cät.png"}}
        send(bot, to(discord), {"segments": [{"type": "text", "data": {"text": "look"}}, image]})
        (asked,) = discord.rest.requests("POST")
        assert asked.files[0][1] == PNG
        assert (asked.body["content"], asked.body["attachments"]) == ("look", [{"id": 0, "filename": "cät.png"}])

    def test_files_that_no_message_holds_go_on_in_the_next(
        self, bot: Bot, discord: Discord, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("adapters.discord.outgoing.MOST_BYTES", 4 * len(PNG))
        discord.rest.most_bytes = 4 * len(PNG)
        small = {"type": "image", "data": {"blob": lumia.blobs.put(PNG, "image/png").as_dict()}}
        large = {"type": "image", "data": {"blob": lumia.blobs.put(PNG * 3, "image/png").as_dict()}}
        send(bot, to(discord), {"segments": [{"type": "text", "data": {"text": "look"}}, small, small, large, small]})
        made = [(asked.body.get("content"), len(asked.files)) for asked in discord.rest.requests("POST")]
        assert made == [("look", 2), (None, 2)]
        assert states() == {"sent": 1}

    def test_more_than_ten_files_are_two_messages(self, bot: Bot, discord: Discord) -> None:
        image = {"type": "image", "data": {"blob": lumia.blobs.put(PNG, "image/png").as_dict()}}
        send(bot, to(discord), {"segments": [image] * 11})
        assert [len(asked.files) for asked in discord.rest.requests("POST")] == [10, 1]
        assert states() == {"sent": 1}

    def test_receipts_answer_what_was_said_to_a_message(self, bot: Bot, discord: Discord) -> None:
        send(bot, to(discord), {"text": "yes", "reply_to": "77"})
        (made,) = discord.rest.messages[discord.channel]
        (receipt,) = lumia.adapters.receipts.answers("discord", "main", discord.channel, "77")
        assert receipt.message_id == made["id"]

    def test_what_was_sent_can_be_edited_and_deleted(self, bot: Bot, discord: Discord) -> None:
        send(bot, to(discord), "helo")
        id = discord.rest.messages[discord.channel][0]["id"]
        lumia.adapters.edit(to(discord), id, "hello", account="main")
        bot.settle(5)
        assert discord.rest.posted(discord.channel) == ["hello"]
        lumia.adapters.delete(to(discord), id, account="main")
        lumia.adapters.delete(to(discord), id, account="main")  # gone already: as good
        bot.settle(5)
        assert discord.rest.posted(discord.channel) == []
        assert not bot.dead

    def test_a_user_gets_a_direct_message_by_their_id(self, bot: Bot, discord: Discord) -> None:
        for text in ("one", "two"):
            send(bot, to(discord, ADA["id"], "private"), text)
        send(bot, to(discord, "4242424242", "private"), "three")
        assert sum(map(len, discord.rest.messages.values())) == 3
        assert len(discord.rest.requests("POST", "/users/@me/channels")) == 2

    def test_nothing_to_show_is_rejected_with_the_reason(self, bot: Bot, discord: Discord) -> None:
        send(bot, to(discord), " \n ")
        assert "nothing" in bot.dead[0].error
        assert states() == {"rejected": 1}
        assert not discord.rest.asked


class TestTrouble:
    @pytest.mark.parametrize("cut", ["before", "after"])
    def test_a_cut_connection_leaves_one_message(self, bot: Bot, discord: Discord, cut: str) -> None:
        discord.rest.script("POST", "/messages", Fault(cut=cut))
        send(bot, to(discord), "once")
        assert discord.rest.posted(discord.channel) == ["once"]
        assert len({one.body["nonce"] for one in discord.rest.requests("POST")}) == 1
        assert states() == {"sent": 1}

    def test_an_error_of_discords_is_tried_again(self, bot: Bot, discord: Discord) -> None:
        discord.rest.script("POST", "/messages", Fault.error(502), Fault.error(500), Fault(200, b"<html>"))
        send(bot, to(discord), "once")
        assert discord.rest.posted(discord.channel) == ["once"]

    def test_discord_away_is_waited_for(self, discord: Discord) -> None:
        config = {"discord": {"accounts": {"main": {**discord.settings, "api_url": "http://127.0.0.1:9/api"}}}}
        with Bot(DISCORD, config=config, clock=ManualClock()) as bot:
            bot.event(to(discord), lumia.Box.any("hello", meta={"account": "main"}))
            assert states() == {"retrying": 1}
            bot.runtime.config.settings("discord").accounts = {"main": discord.settings}  # type: ignore[union-attr]
            bot.settle(10)
            assert discord.rest.posted(discord.channel) == ["hello"]
            shared.close()

    def test_a_429_is_waited_out_exactly_and_costs_no_try(self, bot: Bot, discord: Discord) -> None:
        discord.rest.script("POST", "/messages", *[Fault.limited(2.5)] * 20)
        bot.event(to(discord), lumia.Box.any("patience", meta={"account": "main"}))
        bot.settle(2.4)
        assert len(discord.rest.requests("POST")) == 1
        bot.settle(0.2)
        assert len(discord.rest.requests("POST")) == 2
        bot.settle(60)
        assert discord.rest.posted(discord.channel) == ["patience"]
        assert not bot.dead

    def test_a_global_429_holds_up_every_route(self, bot: Bot, discord: Discord) -> None:
        discord.rest.script("POST", "/messages", Fault.limited(5, everything=True))
        for channel in (discord.channel, discord.thread):
            bot.event(to(discord, channel), lumia.Box.any("hi", meta={"account": "main"}))
        bot.settle(4)
        assert len(discord.rest.requests("POST")) == 1
        bot.settle(10)
        assert discord.rest.posted(discord.channel) == discord.rest.posted(discord.thread) == ["hi"]

    @pytest.mark.parametrize("channel, told", [("999999999999999999", "10003"), ("forbidden", "50013"), ("x", "no id")])
    def test_what_discord_will_never_do_is_a_dead_letter_with_the_reason(
        self, bot: Bot, discord: Discord, channel: str, told: str
    ) -> None:
        if channel == "forbidden":
            channel = discord.thread
            discord.rest.forbidden.add(channel)
        send(bot, to(discord, channel), "hello")
        assert told in bot.dead[0].error
        assert states() == {"rejected": 1}
        send(bot, to(discord), "others go on")
        assert discord.rest.posted(discord.channel) == ["others go on"]

    def test_a_refused_token_is_not_used_again(self, bot: Bot, discord: Discord) -> None:
        discord.rest.token = "another"
        for _ in range(3):
            send(bot, to(discord), "hello")
        assert len(discord.rest.requests("POST")) == 1
        assert all("[accounts.main]" in letter.error for letter in bot.dead)
        assert len(bot.dead) == 3

    def test_too_many_refusals_stop_this_process_before_discord_bans_it(
        self, bot: Bot, discord: Discord, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("adapters.discord.limits.INVALID_MOST", 5)
        discord.rest.forbidden.add(discord.channel)
        for _ in range(8):
            bot.event(to(discord), lumia.Box.any("hello", meta={"account": "main"}))
        assert len(discord.rest.requests("POST")) == 5
        discord.rest.forbidden.clear()
        bot.settle(700)
        assert len(discord.rest.posted(discord.channel)) == 3

    def test_an_account_that_is_gone_is_named(self, bot: Bot, discord: Discord) -> None:
        bot.event(to(discord), lumia.Box.any("hello", meta={"account": "gone"}))
        assert "[accounts.gone]" in bot.dead[0].error


def test_a_bucket_is_never_overdrawn(discord: Discord, start: Start) -> None:
    discord.rest.limit("POST", "/messages", 2, 0.4)
    with start():
        for number in range(6):
            discord.say(str(number))
        until(lambda: len(discord.rest.posted(discord.channel)) == 6)
    assert discord.rest.posted(discord.channel) == [f"you said: {number}" for number in range(6)]
    assert len(discord.rest.requests("POST", "/messages")) == 6, "a 429 was provoked"


def test_files_of_messages_are_fetched_before_the_bot_sees_them(discord: Discord, start: Start) -> None:
    seen: list[dict[str, Any]] = []

    @lumia.pipe.on("msg")
    def look(content: lumia.Box[dict[str, Any]]) -> None:
        seen.append(content.into())

    discord.rest.files["/attachments/1/cat.png"] = ("image/png", PNG)
    file = {"id": "600", "filename": "cat.png", "size": len(PNG), "content_type": "image/png",
            "url": f"{discord.rest.base}/attachments/1/cat.png?ex=66f1&is=66f0&hm=0f3a9c1de2b4f5a69788&"}  # fmt: skip
    with start(look) as site:
        discord.say("look", attachments=[file])
        until(lambda: seen)
        assert "0f3a9c1de2b4f5a69788" not in str(lumia.runs.tail("0", 0.1, 500))
        media = seen[0]["media"][0]
        assert site.bot.runtime.blobs is not None
        assert site.bot.runtime.blobs.get(media["blob"]) == PNG
    assert (media["kind"], media["name"], media["ref"]) == ("image", "cat.png", "600")


class TestAsking:
    def test_a_good_account_is_named(self, bot: Bot, discord: Discord) -> None:
        found = asking.check("main")
        assert (found.ok, found.identity) == (True, f"lumia-bot ({ME['id']})")
        assert "oauth2/authorize" in found.detail

    def test_a_missing_intent_and_a_wrong_token_are_told(self, bot: Bot, discord: Discord) -> None:
        discord.rest.flags = 0
        assert "Message Content Intent" in asking.check("main").detail
        discord.rest.token = "another"
        assert "Reset Token" in asking.check("main").detail
        assert not asking.check("nobody").ok
