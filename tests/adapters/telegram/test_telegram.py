"""The whole adapter: a gateway with a bot in memory on one side, a Bot API server on the other."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import lumia
from lumia import adapters
from lumia.adapters import receipts
from lumia.paths import base
from tests.peers.telegram import Fault, TelegramServer
from tests.peers.telegram_chats import ANN, GROUP
from tests.support.gateway import Served, served
from tests.support.wait import until

TELEGRAM = base() / "adapters" / "telegram"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64
SECRET = "hook-s3cret"


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    msg = content.into()
    if "quiet" not in msg["text"]:
        reply: dict[str, Any] = {"text": f"**you said** {msg['text']}", "reply_to": msg["message_id"]}
        if msg["text"].startswith("long"):
            reply["text"] = "word " * 1500
        if msg["media"]:
            blob = msg["media"][0].get("blob")
            shown = {"type": "image", "data": {"blob": blob}}
            reply = {"segments": [{"type": "text", "data": {"text": "yours"}}, *([shown] if blob else [])]}
        lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(reply, meta=content.meta))
    lumia.utils.next()


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


@contextmanager
def site(telegram: TelegramServer, *handlers: Any, **account: Any) -> Iterator[Served]:
    table = {"token": telegram.token, "api_url": telegram.url, "owner": str(ANN["id"]), "poll_seconds": 1, **account}
    config = {"telegram": {"accounts": {"main": table}}}
    with served(TELEGRAM, *(handlers or (answer,)), config=config) as running_site:
        yield running_site


def state(name: str = "main") -> adapters.AccountInfo:
    return next(one for one in adapters.accounts() if one.account == name)


def counts() -> Mapping[str, int]:
    from lumia.adapters import sends

    return sends.counts("telegram", "main")


class TestPolling:
    def test_a_message_is_answered_and_its_receipt_found(self, telegram: TelegramServer) -> None:
        with site(telegram) as running_site:
            asked = telegram.say("hello @lumia_bot", chat=GROUP)["message"]
            (made,) = until(lambda: telegram.sent)
            assert made["text"] == "you said hello @lumia_bot"
            assert made["entities"][0] == {"type": "bold", "offset": 0, "length": 8}
            assert made["reply_to_message"]["message_id"] == asked["message_id"]
            until(lambda: counts() == {"sent": 1})
            (receipt,) = receipts.answers("telegram", "main", str(GROUP["id"]), str(asked["message_id"]))
            assert receipt.message_id == str(made["message_id"])
            until(lambda: state().state == "connected" and state().last_event)
            assert running_site.bot.dead == []

    def test_what_is_not_confirmed_comes_again_and_is_one_run(self, telegram: TelegramServer) -> None:
        with site(telegram):
            update = telegram.say("once")
            until(lambda: telegram.sent)
            until(lambda: telegram.updates.confirmed > update["update_id"])
            telegram.updates.again(update)
            after = telegram.say("last")
            until(lambda: telegram.updates.confirmed > after["update_id"])
            until(lambda: len(telegram.sent) >= 2)
            assert telegram.texts == ["you said once", "you said last"]

    def test_the_offset_moves_only_after_the_commit(self, telegram: TelegramServer) -> None:
        with site(telegram) as running_site:
            until(lambda: telegram.of("getUpdates"))
            transport = running_site.bot.transport
            real, refused = transport.start, []

            def away(*args: Any, **kwargs: Any) -> Any:
                if len(refused) < 2:
                    refused.append(1)
                    raise lumia.errors.BackendUnavailableError("the broker is away")
                return real(*args, **kwargs)

            transport.start = away  # type: ignore[method-assign]
            update = telegram.say("patience")
            until(lambda: refused)
            assert telegram.updates.confirmed <= update["update_id"]
            until(lambda: telegram.sent)
            until(lambda: telegram.updates.confirmed > update["update_id"])
            assert telegram.texts == ["you said patience"]

    def test_a_webhook_is_removed_first_and_a_second_poller_is_told(
        self, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        telegram.updates.setwebhook({"url": "http://127.0.0.1:1/x"}, None)
        with site(telegram):
            until(lambda: telegram.updates.webhook is None and len(telegram.of("getUpdates")) > 0)
            assert "its webhook is removed" in caplog.text
            telegram.script("getUpdates", Fault.refuse(409, "Conflict: terminated by other getUpdates request"))
            until(lambda: state().state == "disconnected")
            assert "another program polls this bot" in state().detail
            until(lambda: state().state == "connected")

    def test_a_wrong_token_is_refused_and_stands_in_no_log(
        self, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        wrong = "123456789:AAwrongwrongwrongwrong"
        with site(telegram, token=wrong):
            until(lambda: state().state == "refused")
            assert "@BotFather" in state().detail
        assert "AAwrong" not in caplog.text
        assert "HTTP Request" in caplog.text

    def test_an_account_without_a_token_is_named_and_the_other_one_works(self, telegram: TelegramServer) -> None:
        tables = {"bad": {}, "off": {"enabled": False}, "main": {"token": telegram.token, "api_url": telegram.url}}
        with served(TELEGRAM, answer, config={"telegram": {"accounts": tables}}):
            telegram.say("hi")
            until(lambda: telegram.sent)
            assert until(lambda: {one.account: one.state for one in adapters.accounts()}) == {
                "bad": "refused", "off": "disabled", "main": "connected"}  # fmt: skip
            assert "token_env" not in state("bad").detail and "[accounts.bad] has no token" in state("bad").detail

    def test_edits_and_buttons_are_events_and_a_button_is_answered(self, telegram: TelegramServer) -> None:
        seen: list[Any] = []

        @lumia.event.consumer_re("telegram.*")
        def happened(src: str, content: lumia.Box[Any]) -> None:
            seen.append((src, content.into()))

        with site(telegram, answer, happened):
            telegram.say("first, but quiet", chat=GROUP)
            telegram.say("changed", chat=GROUP, kind="edited_message")
            telegram.push({"callback_query": {"id": "77", "from": ANN, "chat_instance": "1", "data": "more"}})
            telegram.say("", chat=GROUP, new_chat_title="Coffee room")
            until(lambda: len(seen) == 3 and telegram.of("answerCallbackQuery"))
        by_name = dict(seen)
        assert by_name["telegram.edited_message"]["msg"]["text"] == "changed"
        assert by_name["telegram.callback_query"]["data"] == "more"
        assert by_name["telegram.service"]["service"] == "new_chat_title"
        assert telegram.of("answerCallbackQuery")[0].params == {"callback_query_id": "77"}
        assert telegram.sent == []

    def test_an_update_nobody_understands_holds_up_nothing(self, telegram: TelegramServer) -> None:
        seen: list[Any] = []

        @lumia.event.consumer("telegram.unreadable")
        def unread(content: lumia.Box[Any]) -> None:
            seen.append(content.into())

        with site(telegram, answer, unread):
            telegram.push({"message": {"message_id": "no number", "chat": GROUP}})
            telegram.say("next")
            until(lambda: telegram.sent and seen)
        assert "message_id" in seen[0]["why"]
        assert seen[0]["update"]["message"]["chat"] == GROUP

    def test_typing_is_shown_if_wanted(self, telegram: TelegramServer) -> None:
        with site(telegram, typing=True):
            telegram.say("hi")
            until(lambda: telegram.sent)
            until(lambda: telegram.of("sendChatAction"))
        assert telegram.of("sendChatAction")[0].params == {"chat_id": str(ANN["id"]), "action": "typing"}


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


class TestSending:
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
        with site(telegram):
            new = telegram.migrate(-45)
            telegram.updates.waiting.clear()
            for text in ("one", "two"):
                lumia.event.start(old, lumia.Box.any(text))
            until(lambda: telegram.texts == ["one", "two"])
            assert {message["chat"]["id"] for message in telegram.sent} == {new}
            assert len(telegram.of("sendMessage")) == 3

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


class TestWebhook:
    def test_it_is_set_updates_come_and_are_tried_again_while_the_broker_is_away(
        self, telegram: TelegramServer
    ) -> None:
        with site(telegram, mode="webhook", secret_token=SECRET) as running_site:
            telegram.updates.setwebhook(
                {"url": f"{running_site.url}/telegram/main", "secret_token": SECRET}, None)  # fmt: skip
            transport = running_site.bot.transport
            real, refused = transport.start, []

            def away(*args: Any, **kwargs: Any) -> Any:
                if not refused:
                    refused.append(1)
                    raise lumia.errors.BackendUnavailableError("the broker is away")
                return real(*args, **kwargs)

            transport.start = away  # type: ignore[method-assign]
            update = telegram.say("hello")
            until(lambda: telegram.sent)
            hook = telegram.updates.webhook
            assert hook is not None
            until(lambda: hook.statuses[-1:] == [200])
            assert hook.statuses == [503, 200]
            telegram.updates.again(update)
            until(lambda: len(hook.statuses) == 3)
            telegram.say("end")
            until(lambda: len(telegram.sent) == 2)
            assert telegram.texts == ["you said hello", "you said end"]

    def test_with_a_public_url_the_webhook_is_set_with_a_derived_secret(self, telegram: TelegramServer) -> None:
        with site(telegram, mode="webhook", public_url="http://127.0.0.1:9") as running_site:
            (call,) = until(lambda: telegram.of("setWebhook"))
            assert call.params["url"] == "http://127.0.0.1:9/telegram/main"
            derived = call.params["secret_token"]
            assert len(derived) == 64
            answered = running_site.client.post("/telegram/main", json={"update_id": 1},
                                                headers={"X-Telegram-Bot-Api-Secret-Token": derived})  # fmt: skip
            assert (answered.status_code, answered.content) == (200, b"")
            assert until(lambda: state().state == "listening")

    @pytest.mark.parametrize("given", [None, "", "wrong", SECRET + "x", "\u00fc"])
    def test_who_doesnt_know_the_secret_leaves_only_a_number(self, telegram: TelegramServer, given: str | None) -> None:
        with site(telegram, mode="webhook", secret_token=SECRET) as running_site:
            before = running_site.bot.transport.cursor()
            headers = {} if given is None else {"X-Telegram-Bot-Api-Secret-Token": given.encode()}
            assert running_site.client.post("/telegram/main", content=b"{", headers=headers).status_code == 403
            until(lambda: lumia.store.of("telegram").get("refused", scope="main") == 1)
            assert running_site.bot.transport.cursor() == before

    def test_who_polls_takes_no_posts_and_nobody_else_exists(self, telegram: TelegramServer) -> None:
        with site(telegram) as running_site:
            assert running_site.client.post("/telegram/main", json={}).status_code == 404
            assert running_site.client.post("/telegram/other", json={}).status_code == 404

    @pytest.mark.parametrize("body, status", [(b"{", 400), (b"[]", 200), (b"null", 200), (b'{"update_id": 5}', 200),
                                              (b"[" * 100000, 400)])  # fmt: skip
    def test_a_strange_body_is_no_failure(self, telegram: TelegramServer, body: bytes, status: int) -> None:
        with site(telegram, mode="webhook", secret_token=SECRET) as running_site:
            headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
            assert running_site.client.post("/telegram/main", content=body, headers=headers).status_code == status

    def test_until_it_is_known_who_the_bot_is_updates_come_again(self, telegram: TelegramServer) -> None:
        telegram.script("getMe", Fault.garbage())
        with site(telegram, mode="webhook", secret_token=SECRET) as running_site:
            headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
            update = {"update_id": 1, "message": telegram.chats.said("hi", None, None)}
            first: httpx.Response = running_site.client.post("/telegram/main", json=update, headers=headers)
            assert (first.status_code, first.headers["Retry-After"]) == (503, "5")
            assert running_site.client.post("/telegram/main", json=update, headers=headers).status_code == 200
            until(lambda: telegram.sent)


class TestCheck:
    def test_it_tells_who_the_bot_is_and_of_the_privacy_mode(self, telegram: TelegramServer) -> None:
        from adapters.telegram.checking import check

        with site(telegram, mode="webhook"):
            found = check("main")
            assert (found.ok, found.identity) == (False, "@lumia_bot (123456789)")
            assert "no webhook is set" in found.detail and "/setprivacy" in found.detail
            assert "[accounts.nobody]" in check("nobody").detail
        telegram.privacy = False
        with site(telegram):
            found = check("main")
            assert (found.ok, found.detail) == (True, "")
        with site(telegram, token="1:" + "x" * 20):
            assert "doesn't know this token" in check("main").detail
