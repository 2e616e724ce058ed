"""Forward WebSockets and HTTP: we connect, we ask, and reports are taken only from who knows the secret."""

from __future__ import annotations

import hashlib
import hmac
import logging
from http import HTTPStatus
from typing import Any

import pytest

import lumia
from adapters.onebot import accounts, checking
from lumia.errors import BackendUnavailableError
from tests.adapters.onebot.site import Heard, account, reach, send, sends, site
from tests.peers.onebot import DROP, OneBot, fail
from tests.support.wait import until

SECRET = "s3cret-of-the-reports"


@pytest.fixture
def heard() -> Heard:
    return Heard()


def out(url: str, **more: Any) -> dict[str, Any]:
    return {"mode": "forward", "url": url, "interval": 0.0, **more}


class TestForward:
    @pytest.mark.parametrize("lagrange", [False, True])
    def test_a_message_is_answered_over_our_connection(self, heard: Heard, lagrange: bool) -> None:
        with OneBot("10001", token="t", lagrange=lagrange) as qq:
            url = qq.serve()
            with site(heard, main=out(url, access_token="t", self_id="10001")) as gateway:
                reach(gateway, "connected")
                qq.say("echo forward", group="12")
                qq.wait_sent()
                assert qq.texts() == ["forward"]
                assert checking.check("main").identity == "Lumia (10001)"

    @pytest.mark.parametrize("lagrange", [False, True])
    def test_a_wrong_token_is_refused_and_tried_again_later(self, heard: Heard, lagrange: bool) -> None:
        with OneBot("10001", token="0ur-token", lagrange=lagrange) as qq:
            url = qq.serve()
            with site(heard, main=out(url, access_token="0ur-token")) as gateway:
                reach(gateway, "connected")
                qq.token = "another"
                qq.cut()
                reach(gateway, "refused")
                found = account(gateway)
                assert found is not None
                assert "0ur" not in found.detail
                qq.token = "0ur-token"
                reach(gateway, "connected")

    def test_an_account_that_is_taken_out_is_left_and_told(self, heard: Heard) -> None:
        with OneBot("10001", token="t") as qq:
            url = qq.serve()
            with site(heard, main=out(url, access_token="t")) as gateway:
                reach(gateway, "connected")
                gateway.bot.runtime.config.settings("onebot").accounts = {}  # type: ignore[union-attr]
                state = lumia.adapters.account("onebot", "main", platform="qq").standing
                until(lambda: state.detail == "taken out of config/onebot.toml")
                assert state.state == "disconnected"

    def test_the_token_stands_in_no_log(self, heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG), OneBot("10001", token="0ur-token") as qq:
            url = qq.serve()
            with site(heard, main=out(url, access_token="0ur-token")) as gateway:
                reach(gateway, "connected")
                assert "0ur" not in repr(accounts.find("main"))
        ours = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
        assert ours and not [line for line in ours if "0ur-token" in line]

    def test_another_bot_at_the_address_is_refused(self, heard: Heard) -> None:
        with OneBot("10002") as qq:
            url = qq.serve()
            with site(heard, main=out(url, self_id="10001")) as gateway:
                reach(gateway, "refused")

    def test_a_cut_connection_is_opened_again_and_nothing_is_lost(self, heard: Heard) -> None:
        with OneBot("10001") as qq:
            url = qq.serve()
            with site(heard, main=out(url)) as gateway:
                reach(gateway, "connected")
                qq.say("one", group="12")
                heard.wait(1)
                until(lambda: lumia.store.of("onebot").get("seen", scope="main"), what="the cursor")
                qq.cut()
                qq.message("two", group="12")
                reach(gateway, "connected")
                qq.say("three", group="12")
                assert heard.wait(3) == ["one", "two", "three"]

    def test_nobody_there_is_said(self, heard: Heard) -> None:
        with site(heard, main=out("ws://127.0.0.1:9")) as gateway:
            reach(gateway, "disconnected")
            found = account(gateway)
            assert found is not None
            assert "next try" in found.detail

    def test_wrong_settings_are_refused_with_the_way_out(self, heard: Heard) -> None:
        with site(heard, main={"mode": "forward"}, off={"enabled": False}) as gateway:
            reach(gateway, "refused")
            reach(gateway, "disabled", "off")


def by_http(url: str, **more: Any) -> dict[str, Any]:
    return {"mode": "http", "url": url, "access_token": "t", "secret": SECRET, "interval": 0.0, **more}


class TestHttp:
    def test_a_report_is_answered_by_an_action(self, heard: Heard) -> None:
        with OneBot("10001", token="t") as qq, site(heard, main=by_http(qq.serve_http())) as gateway:
            reach(gateway, "listening")
            event = qq.message("echo by http", group="12")
            for _ in range(2):
                response = qq.report(f"{gateway.url}/onebot/v11/http/main", event, SECRET)
                assert (response.status_code, response.content) == (204, b"")
            qq.wait_sent()
            assert qq.texts() == ["by http"]
            assert heard.texts == ["echo by http"]
            assert checking.check("main").ok

    def test_napcats_token_signs_where_there_is_no_secret(self, heard: Heard) -> None:
        with OneBot("10001", token="t") as qq, site(heard, main=by_http(qq.serve_http(), secret="")) as gateway:
            assert qq.report(f"{gateway.url}/onebot/v11/http/main", qq.message("x", group="1"), "t").status_code == 204

    def test_only_who_knows_the_secret_may_report(self, heard: Heard) -> None:
        with OneBot("10001") as qq, site(heard, main=by_http("http://127.0.0.1:9", self_id="10001")) as gateway:
            url, event = f"{gateway.url}/onebot/v11/http/main", qq.message("no", group="1")
            assert qq.report(url, event).status_code == 401
            assert qq.report(url, event, "guess").status_code == 403
            signed = "sha1=" + hmac.new(SECRET.encode(), b"{}", hashlib.sha1).hexdigest()
            assert qq.report(url, event, headers={"X-Signature": signed}).status_code == 403
            assert qq.report(f"{gateway.url}/onebot/v11/http/other", event, SECRET).status_code == 404
            assert qq.report(url, {**event, "self_id": 5}, SECRET).status_code == 403
            assert qq.report(url, b"{", SECRET).status_code == 400
            until(lambda: lumia.store.of("onebot").get("refused"), what="the counter")
        assert not heard.messages

    def test_nothing_is_accepted_while_the_broker_is_away(self, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
        with OneBot("10001") as qq, site(heard, main=by_http("http://127.0.0.1:9")) as gateway:
            url, event = f"{gateway.url}/onebot/v11/http/main", qq.message("later", group="1")

            def away(*args: Any, **options: Any) -> Any:
                raise BackendUnavailableError("away")

            with monkeypatch.context() as patch:
                patch.setattr(gateway.bot.transport, "start_each", away)
                response = qq.report(url, event, SECRET)
                assert response.status_code == 503
                assert response.headers["retry-after"]
            assert qq.report(url, event, SECRET).status_code == 204
            assert heard.wait(1) == ["later"]

    def test_the_account_says_when_it_is_offline(self, heard: Heard) -> None:
        with OneBot("10001", token="t") as qq, site(heard, main=by_http(qq.serve_http())) as gateway:
            url = f"{gateway.url}/onebot/v11/http/main"
            reach(gateway, "listening")
            qq.online = False
            qq.report(url, qq.meta("heartbeat", status={"online": False, "good": True}, interval=5000), SECRET)
            reach(gateway, "offline")
            qq.online = True
            qq.report(url, qq.meta("heartbeat", status={"online": True, "good": True}, interval=5000), SECRET)
            reach(gateway, "listening")
            for sub_type, state in (("disable", "offline"), ("enable", "listening")):
                qq.report(url, qq.meta("lifecycle", sub_type=sub_type), SECRET)
                reach(gateway, state)

    def test_a_wrong_token_is_refused(self, heard: Heard) -> None:
        with OneBot("10001", token="another") as qq, site(heard, main=by_http(qq.serve_http())) as gateway:
            reach(gateway, "refused")

    @pytest.mark.parametrize(
        "fault, wanted",
        [
            (HTTPStatus.TOO_MANY_REQUESTS, "sent"),
            (fail(1400, "no such group"), "rejected"),
            (fail(1200, "EventChecker Failed"), "rejected"),
            (DROP, "sent"),  # found in the history
            (HTTPStatus.BAD_GATEWAY, "held"),
        ],
    )
    def test_each_way_to_fail_has_its_consequence(self, heard: Heard, fault: Any, wanted: str) -> None:
        with OneBot("10001", token="t") as qq, site(heard, main=by_http(qq.serve_http())) as gateway:
            qq.fault("send_group_msg", fault)
            send(gateway, "x")
            until(lambda: sends(gateway) == {wanted: 1}, what=wanted)
            assert len(qq.sent) == (1 if wanted == "sent" else 0)

    def test_a_file_goes_as_base64(self, heard: Heard) -> None:
        with OneBot("10001", token="t") as qq, site(heard, main=by_http(qq.serve_http())) as gateway:
            png = b"\x89PNG\r\n\x1a\n" + b"x" * 50
            blob = lumia.blobs.put(png, "image/png").as_dict()
            to = lumia.payloads.destination(3, "qq", "group", "12")
            said = {"segments": [{"type": "image", "data": {"blob": blob}}]}
            lumia.event.start(to, lumia.Box.any(said, meta={"account": "main"}))
            sent = qq.wait_sent()[0].params["message"]
            assert [part["type"] for part in sent] == ["image"]
            assert sent[0]["data"]["file"].startswith("base64://iVBORw0KGgp4")
            until(lambda: sends(gateway) == {"sent": 1}, what="the receipt")
