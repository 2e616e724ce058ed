"""What is sent arrives once, as Telegram wants it, and what it refuses is told; files there and back."""

from __future__ import annotations

import sys

import pytest

import lumia
from lumia import adapters
from lumia.errors import BackendUnavailableError
from tests.adapters.telegram.site import TELEGRAM, answer, counts, site
from tests.peers.telegram import Fault, TelegramServer
from tests.peers.telegram_chats import ANN, GROUP
from tests.support.gateway import served
from tests.support.wait import until

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


class TestFiles:
    def test_a_photo_is_fetched_before_the_message_goes_on_and_one_is_sent(self, telegram: TelegramServer) -> None:
        file_id = telegram.file(PNG, "photos/file_1.png")
        small = {"file_id": "small", "file_unique_id": "s", "width": 1, "height": 1}
        large = {"file_id": file_id, "file_unique_id": "l", "width": 9, "height": 9, "file_size": len(PNG)}
        with site(telegram) as running_site:
            telegram.say(photo=[small, large], caption="look")
            (made,) = until(lambda: telegram.sent)
            assert made["caption"] == "yours"
            (call,) = telegram.of("sendPhoto")
            assert call.files["photo"][1] == PNG
            assert running_site.bot.dead == []

    def test_a_file_that_cant_be_had_holds_up_nothing(self, telegram: TelegramServer) -> None:
        gone = {"file_id": "gone", "file_unique_id": "g", "file_name": "a.pdf", "mime_type": "application/pdf"}
        with site(telegram):
            telegram.say(document=gone, caption="see this")
            until(lambda: telegram.texts == ["yours"])

    def test_a_file_by_its_address_is_fetched_through_the_gate_and_an_inner_one_refused(
        self, telegram: TelegramServer
    ) -> None:
        to = lumia.payloads.destination(4, "telegram", "private", "7001")
        inner = {"segments": [{"type": "image", "data": {"url": "https://127.0.0.1/x.png"}}]}
        with site(telegram) as running_site:
            lumia.event.start(to, lumia.Box.any(inner))
            (letter,) = until(lambda: running_site.bot.dead)
            assert "a file to be sent can't be had" in letter.error
            assert (counts(), telegram.sent) == ({"rejected": 1}, [])


class TestSending:
    def test_a_store_that_is_away_before_anything_went_out_leaves_nothing_unknown(
        self, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with site(telegram) as running_site:
            migration = sys.modules["adapters.telegram.migration"]
            current, asked = migration.current, list[str]()

            def away_once(account: str, chat_id: int | str) -> int | str:
                asked.append(account)
                if len(asked) == 1:
                    raise BackendUnavailableError("the broker is away")
                return int(current(account, chat_id))

            monkeypatch.setattr(migration, "current", away_once)
            telegram.say("hi")
            until(lambda: counts() == {"sent": 1})
            assert (telegram.texts, running_site.bot.dead) == (["you said hi"], [])

    def test_a_long_reply_comes_in_parts_and_a_retry_sends_only_what_is_missing(self, telegram: TelegramServer) -> None:
        with site(telegram):
            telegram.script("sendMessage", Fault.slow(0.01), Fault.flood(1))
            telegram.say("long please")
            until(lambda: len(telegram.sent) == 2)
            assert all(len(text) <= 4096 for text in telegram.texts)
            until(lambda: counts() == {"sent": 1})
            assert len(telegram.of("sendMessage")) == 3

    def test_flood_control_is_waited_out_and_nothing_is_sent_twice(self, telegram: TelegramServer) -> None:
        with site(telegram):
            telegram.script("sendMessage", Fault.flood(1))
            telegram.say("hi")
            until(lambda: telegram.texts == ["you said hi"])
            until(lambda: counts() == {"sent": 1})
            assert len(telegram.of("sendMessage")) == 2

    def test_a_blocked_chat_is_a_dead_letter_with_telegrams_reason(self, telegram: TelegramServer) -> None:
        telegram.chats.blocked.add(ANN["id"])
        with site(telegram) as running_site:
            telegram.say("hi")
            (letter,) = until(lambda: running_site.bot.dead)
            assert "Forbidden: bot was blocked by the user" in letter.error
            assert counts() == {"rejected": 1}

    @pytest.mark.parametrize("policy, copies, state", [("hold", 1, "held"), ("retry", 2, "sent")])
    def test_a_send_without_an_answer_follows_the_policy(
        self, telegram: TelegramServer, policy: str, copies: int, state: str
    ) -> None:
        with site(telegram, on_unknown=policy) as running_site:
            telegram.script("sendMessage", Fault(cut="after"))
            telegram.say("hi")
            until(lambda: counts() == {state: 1})
            assert telegram.texts == ["you said hi"] * copies
            shown = " ".join(letter.error for letter in running_site.bot.dead)
            assert telegram.token not in shown
            assert ("may have arrived" in shown) is (policy == "hold")

    def test_a_server_that_is_not_there_is_tried_again(self, telegram: TelegramServer) -> None:
        tables = {"main": {"token": telegram.token, "api_url": "http://127.0.0.1:1", "mode": "webhook"}}
        with served(TELEGRAM, answer, config={"telegram": {"accounts": tables}}) as running_site:
            to = lumia.payloads.destination(4, "telegram", "private", "7001")
            lumia.event.start(to, lumia.Box.any("hi"))
            until(lambda: counts() == {"retrying": 1})
            assert running_site.bot.dead == []

    def test_entities_telegram_cant_parse_are_left_out(self, telegram: TelegramServer) -> None:
        telegram.chats.unparsable = "tricky"
        with site(telegram):
            telegram.say("tricky")
            (made,) = until(lambda: telegram.sent)
        assert (made["text"], "entities" in made) == ("you said tricky", False)

    def test_a_group_that_became_a_supergroup_is_sent_to_under_its_new_id(self, telegram: TelegramServer) -> None:
        old = lumia.payloads.destination(4, "telegram", "group", "-45")
        with site(telegram) as running_site:
            new, _, _ = telegram.chats.migrate(-45)  # and no update tells of it
            for count, text in enumerate(("one", "two"), 1):
                lumia.event.start(old, lumia.Box.any({"text": text, "reply_to": "101"}))
                until(lambda: counts() == {"sent": count})  # noqa: B023
            assert telegram.texts == ["one", "two"]
            assert {message["chat"]["id"] for message in telegram.sent} == {new}
            calls = telegram.of("sendMessage")
            assert ["reply_parameters" in call.params for call in calls] == [True, False, False]
            adapters.edit(old, str(telegram.sent[0]["message_id"]), "new", account="main")
            until(lambda: telegram.texts == ["new", "two"])
            adapters.delete(old, "101", account="main")
            (letter,) = until(lambda: running_site.bot.dead)
            assert "before group -45 became a supergroup" in letter.error
            assert telegram.of("deleteMessage") == []

    def test_the_service_message_tells_of_the_new_id_as_well(self, telegram: TelegramServer) -> None:
        with site(telegram):
            new = telegram.migrate(-46)
            until(lambda: lumia.store.of("telegram").fields("moved", scope="main"))
            lumia.event.start(lumia.payloads.destination(4, "telegram", "group", "-46"), lumia.Box.any("hi"))
            until(lambda: telegram.sent)
            assert [call.params["chat_id"] for call in telegram.of("sendMessage")] == [new]

    def test_a_topic_is_answered_in_the_topic(self, telegram: TelegramServer) -> None:
        telegram.chats.topics.add(40)
        with site(telegram):
            telegram.say("here", chat={**GROUP, "is_forum": True}, message_thread_id=40, is_topic_message=True)
            (made,) = until(lambda: telegram.sent)
        assert made["message_thread_id"] == 40

    def test_direct_messages_to_a_channel_are_answered_to_the_person(self, telegram: TelegramServer) -> None:
        chat = {"id": -1001888888888, "title": "Tea news", "type": "supergroup", "is_direct_messages": True}
        with site(telegram, typing=True) as running_site:
            update = telegram.say("@lumia_bot more tea?", chat=chat, direct_messages_topic={"topic_id": 7001})
            (made,) = until(lambda: telegram.sent)
            assert made["direct_messages_topic"] == {"topic_id": 7001}
            until(lambda: telegram.updates.confirmed > update["update_id"])
            assert running_site.bot.dead == []

    def test_of_a_file_the_caption_is_edited_and_is_as_long_as_captions_are(self, telegram: TelegramServer) -> None:
        with site(telegram) as running_site:
            to = lumia.payloads.destination(4, "telegram", "private", str(ANN["id"]))
            blob = lumia.blobs.put(b"a file", "text/plain").as_dict()
            segments = [
                {"type": "text", "data": {"text": "first"}},
                {"type": "file", "data": {"blob": blob, "name": "a.txt"}},
            ]
            lumia.event.start(to, lumia.Box.any({"segments": segments}, meta={"account": "main"}))
            (made,) = until(lambda: telegram.sent)
            adapters.edit(to, str(made["message_id"]), "**bold** " + "long " * 400, account="main")
            until(lambda: telegram.of("editMessageCaption"))
            until(lambda: "edit_date" in telegram.sent[0])
            assert telegram.sent[0]["caption"].startswith("bold long long")
            assert 900 < len(telegram.sent[0]["caption"]) <= 1024
            assert telegram.sent[0]["caption_entities"] == [{"type": "bold", "offset": 0, "length": 4}]
            assert running_site.bot.dead == []

    def test_a_message_is_edited_the_same_edit_twice_is_one_and_it_is_taken_back(
        self, telegram: TelegramServer
    ) -> None:
        with site(telegram) as running_site:
            telegram.say("hi")
            (made,) = until(lambda: telegram.sent)
            to = lumia.payloads.destination(4, "telegram", "private", str(ANN["id"]))
            for _ in range(2):
                adapters.edit(to, str(made["message_id"]), "*better*", account="main")
            until(lambda: len(telegram.of("editMessageText")) == 2)
            assert telegram.sent[0]["text"] == "better"
            for _ in range(2):
                adapters.delete(to, str(made["message_id"]))
            until(lambda: len(telegram.of("deleteMessage")) == 2)
            assert (telegram.sent, running_site.bot.dead) == ([], [])
