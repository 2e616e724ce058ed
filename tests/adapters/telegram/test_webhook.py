"""Updates that are posted: who may, what is answered when; and what the check tells."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import lumia
from tests.adapters.telegram.site import site, state
from tests.peers.telegram import Fault, TelegramServer
from tests.support.wait import until

SECRET = "hook-s3cret"


class TestWebhook:
    def test_it_is_set_updates_come_and_are_tried_again_while_the_broker_is_away(
        self, telegram: TelegramServer
    ) -> None:
        with site(telegram, mode="webhook", secret_token=SECRET) as running_site:
            telegram.updates.setwebhook(
                {"url": f"{running_site.url}/telegram/main", "secret_token": SECRET}, None)  # fmt: skip
            transport = running_site.bot.transport
            real = transport.start
            refused: list[int] = []

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
        with site(telegram, mode="webhook", public_url="http://127.0.0.1:9", max_connections=1) as running_site:
            (call,) = until(lambda: telegram.of("setWebhook"))
            assert (call.params["max_connections"], call.params["allowed_updates"]) == (1, [])
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
            headers = {} if given is None else {b"X-Telegram-Bot-Api-Secret-Token": given.encode()}
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
