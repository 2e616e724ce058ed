"""Updates that are fetched: accepted once, confirmed after the commit; what goes wrong is told."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import pytest

import lumia
from lumia.adapters import receipts
from tests.adapters.telegram.site import TELEGRAM, answer, counts, site, state
from tests.peers.telegram import Fault, TelegramServer
from tests.peers.telegram_chats import ANN, GROUP
from tests.support.gateway import served
from tests.support.wait import until


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
            real = transport.start
            refused: list[int] = []

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
            until(lambda: [state(name).state for name in tables] == ["refused", "disabled", "connected"])
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
        assert by_name["telegram.callback_query"]["callback_query"]["data"] == "more"
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

    def test_an_update_that_can_not_be_read_for_a_fault_of_ours_is_kept_as_an_event(
        self, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[Any] = []

        @lumia.event.consumer("telegram.unreadable")
        def unread(content: lumia.Box[Any]) -> None:
            seen.append(content.into())

        with site(telegram, answer, unread):
            incoming = sys.modules["adapters.telegram.incoming"]
            read = incoming.read

            def faulty(update: Any, *args: Any) -> Any:
                if update["message"]["text"] == "poison":
                    raise KeyError("a fault of ours")
                return read(update, *args)

            monkeypatch.setattr(incoming, "read", faulty)
            left_out = telegram.say("poison")
            telegram.say("next")
            until(lambda: telegram.texts == ["you said next"] and seen)
            until(lambda: telegram.updates.confirmed > left_out["update_id"])
            told = f"1 could not be taken, the last: update {left_out['update_id']}: KeyError: 'a fault of ours'"
            until(lambda: told in state().detail)
        assert seen[0]["update"] == left_out and seen[0]["why"] == "KeyError: 'a fault of ours'"
        assert "Traceback" in caplog.text

    def test_an_update_that_meets_a_fault_of_ours_is_given_up_so_that_others_get_through(
        self, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("lumia.adapters.holding.PATIENCE", 0.1)
        monkeypatch.setattr("lumia.adapters.holding.FAULT_PAUSE", 0.05)
        submit = lumia.adapters.submit

        async def faulty(adapter: str, msg: dict[str, Any], *args: Any) -> str:
            if msg["text"] == "poison":
                raise KeyError("a fault of ours")
            return await submit(adapter, msg, *args)

        with site(telegram):
            monkeypatch.setattr(lumia.adapters, "submit", faulty)
            given_up = telegram.say("poison")
            telegram.say("next")
            until(lambda: telegram.texts == ["you said next"])
            until(lambda: telegram.updates.confirmed > given_up["update_id"])
            until(lambda: f"the last: update {given_up['update_id']}: KeyError" in state().detail)
        assert f"update {given_up['update_id']} of telegram/main was not taken" in caplog.text

    def test_an_update_of_a_kind_nobody_knows_ends_no_polling(self, telegram: TelegramServer) -> None:
        with site(telegram):
            telegram.push({"next_year": {"message": "no object"}})
            telegram.say("next")
            until(lambda: telegram.texts == ["you said next"])

    def test_what_waits_is_dropped_at_the_start_and_not_after_a_failure(
        self, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        telegram.say("long ago")
        with site(telegram, drop_pending=True):
            poller_of = sys.modules["adapters.telegram.polling"].Poller
            fetch, failed = poller_of._fetch, threading.Event()

            async def fails_once(poller: Any) -> Any:
                if not failed.is_set():
                    telegram.say("meanwhile")
                    failed.set()
                    raise RuntimeError("a fault of ours")
                return await fetch(poller)

            until(lambda: state().state == "connected")
            monkeypatch.setattr(poller_of, "_fetch", fails_once)
            until(lambda: telegram.sent)
        assert failed.is_set() and telegram.texts == ["you said meanwhile"]

    def test_polling_that_ends_by_a_fault_of_ours_or_a_lost_turn_is_told_and_begun_again(
        self, telegram: TelegramServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def told(what: str) -> bool:
            return (state().state, state().detail) == ("disconnected", what)

        async def fails(poller: Any) -> Any:
            raise RuntimeError("a fault of ours")

        with site(telegram) as running:
            until(lambda: state().state == "connected")
            with monkeypatch.context() as faulty:
                faulty.setattr(sys.modules["adapters.telegram.polling"].Poller, "_fetch", fails)
                until(lambda: told("an error of this adapter, see the gateway's log"))
            until(lambda: state().state == "connected")
            with monkeypatch.context() as taken:
                taken.setattr(running.bot.transport, "lease", lambda *args: 0)
                until(lambda: told("another gateway may have it by now"))
            telegram.say("hi")
            until(lambda: telegram.texts == ["you said hi"])

    def test_an_account_that_is_taken_out_is_told(self, telegram: TelegramServer) -> None:
        with site(telegram) as running:
            until(lambda: state().state == "connected")
            running.bot.runtime.config.settings("telegram").accounts = {}  # type: ignore[union-attr]
            until(lambda: lumia.adapters.account("telegram", "main").state == "disconnected")
            assert lumia.adapters.account("telegram", "main").standing.detail == "taken out of config/telegram.toml"

    def test_typing_is_shown_if_wanted(self, telegram: TelegramServer) -> None:
        with site(telegram, typing=True):
            telegram.say("hi")
            until(lambda: telegram.sent)
            until(lambda: telegram.of("sendChatAction"))
        assert telegram.of("sendChatAction")[0].params == {"chat_id": ANN["id"], "action": "typing"}
