"""The bots of the settings: what is wrong is named with place and way out, and no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest

import lumia
from adapters.telegram import accounts, api
from lumia.errors import PayloadError
from lumia.testing import Bot
from tests.adapters.telegram.site import TELEGRAM

TOKEN = "123456789:AAFakeTokenOfTheTestServer_0123456789"


def faults(name: str = "main", **table: Any) -> str:
    return "; ".join(f"{why}: {fix}" for why, fix in accounts.faults(accounts.of(name, table)))


def remarks(**table: Any) -> str:
    return "; ".join(f"{why}: {fix}" for why, fix in accounts.remarks(accounts.of("main", {"token": TOKEN, **table})))


@pytest.mark.parametrize(
    "table, said",
    [
        ({}, "[accounts.main] has no token"),
        ({"token": "nonsense"}, "token isn't one"),
        ({"token": TOKEN, "secret_token": "no good!"}, "secret_token can't be used"),
        ({"token": TOKEN, "api_url": "api.telegram.org"}, "api_url is no http(s) address"),
        ({"token": TOKEN, "public_url": "bot.example.org"}, "public_url is no https address"),
        ({"token": TOKEN, "proxy": "socks"}, "proxy is no http(s) address"),
        ({"token": TOKEN, "public_url": "https://[bad"}, "public_url is no https address"),
    ],
)
def test_what_keeps_a_bot_from_working_is_named(table: dict[str, Any], said: str) -> None:
    assert said in faults(**table)
    assert "nonsense" not in faults(**table) and "no good" not in faults(**table)


def test_a_name_that_no_path_could_hold_is_named() -> None:
    assert "[accounts.a/b] is not served" in faults("a/b", token=TOKEN)
    assert faults("shop.1", token=TOKEN) == ""


@pytest.mark.parametrize(
    "table, said",
    [
        ({"mode": "webhook", "public_url": "http://bot.example.org"}, "Telegram posts to https on the ports"),
        ({"mode": "webhook", "public_url": "https://bot.example.org:8470"}, "Telegram posts to https on the ports"),
        ({"mode": "webhook"}, "has no public_url"),
        ({"allowed_updates": ["message", "massage"]}, "names massage"),
        ({"allowed_updates": ["callback_query"]}, "nothing said is heard"),
    ],
)
def test_what_may_not_be_meant_so_is_told(table: dict[str, Any], said: str) -> None:
    assert said in remarks(**table)


def test_a_good_account_has_nothing_to_remark() -> None:
    assert remarks() == remarks(mode="webhook", public_url="https://bot.example.org:8443/") == ""


def test_secrets_come_from_the_environment_and_stand_in_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMIA_TEST_TELEGRAM", f" {TOKEN}\n")
    account = accounts.of(
        "main", {"token_env": "LUMIA_TEST_TELEGRAM", "secret_token": "s3cret", "proxy": "http://u:p@x"}
    )
    assert (account.token, account.bot_id) == (TOKEN, "123456789")
    assert not any(secret in repr(account) for secret in (TOKEN, "s3cret", "u:p"))


def test_the_derived_secret_is_the_same_in_every_process_and_another_for_every_bot() -> None:
    tables = {"one": {"token": TOKEN}, "two": {"token": TOKEN}}
    with Bot(TELEGRAM, config={"telegram": {"accounts": tables}}):
        one, two = accounts.every()
        assert one.webhook_secret() == accounts.required("one").webhook_secret() != two.webhook_secret()


def test_doctor_tells_of_every_account() -> None:
    tables = {"good": {"token": TOKEN}, "twin": {"token": TOKEN}, "bad": {}, "off": {"enabled": False}}
    with Bot(TELEGRAM, config={"telegram": {"accounts": tables}}) as bot:
        assert bot.runtime.plugins is not None
        found = [finding for name, finding in lumia.checks.findings(bot.runtime.plugins) if name == "telegram"]
    assert sorted(finding.level for finding in found) == ["fail", "fail", "ok", "ok"]
    assert any("same token" in finding.message for finding in found)


def test_who_can_not_send_says_why() -> None:
    tables = {"off": {"token": TOKEN, "enabled": False}, "bad": {"token": "x"}}
    with Bot(TELEGRAM, config={"telegram": {"accounts": tables}}):
        for name, why in (("none", r"add \[accounts.none\]"), ("off", "switched off"), ("bad", "token isn't one")):
            with pytest.raises(PayloadError, match=why):
                accounts.required(name)


@pytest.mark.parametrize("text", [f"POST https://x/bot{TOKEN}/getMe", f"{TOKEN} is it", "a:b 12:30 http://x:80/y"])
def test_a_token_is_taken_out_of_any_text(text: str) -> None:
    shown = api.hide(text)
    assert TOKEN.partition(":")[2] not in shown
    assert "AAF" in text or shown == text
