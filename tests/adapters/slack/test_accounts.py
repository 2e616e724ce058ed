"""Accounts: what is wrong is named with file, table and way out; who the bot is can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lumia
from adapters.slack import checking
from adapters.slack.accounts import Account
from lumia.testing import Bot
from tests.adapters.slack.common import SLACK, config
from tests.peers.slack import Fault, SlackPeer
from tests.peers.slack_socket import SocketPeer

GOOD = {"bot_token": "xoxb-1", "signing_secret": "s"}


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


def account(slack: SlackPeer, **more: Any) -> Account:
    return Account("main", bot_token=slack.bot_token, api_url=slack.api_url, **more)


class TestSettings:
    @pytest.mark.parametrize(
        "table, why",
        [
            ({}, ["bot_token is missing; copy it", "signing_secret is missing"]),
            ({**GOOD, "bot_token": "xoxp-1"}, ["bot_token is no xoxb-… token"]),
            ({**GOOD, "mode": "socket"}, ["app_token is missing; make one with connections:write"]),
            ({**GOOD, "mode": "socket", "app_token": "xoxb-1"}, ["app_token is no xapp-… token"]),
            ({**GOOD, "owner": "ann"}, ["owner 'ann' is no Slack id"]),
            ({**GOOD, "api_url": "slack.com"}, ["is no web address"]),
            ({**GOOD, "mode": "sockets"}, ["mode is 'sockets'; write one of events, socket"]),
            ({**GOOD, "reply_in_thread": "yes", "on_unknown": "drop"}, ["reply_in_thread is 'yes'", "on_unknown is"]),
            ({**GOOD, "owner": "U0ANN00001"}, []),
            ({"enabled": False}, []),
        ],
    )
    def test_what_is_wrong_is_told_at_the_start(
        self, table: dict[str, Any], why: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        with Bot(SLACK, config={"slack": {"accounts": {"main": table}}}):
            pass
        told = [record.getMessage() for record in caplog.records if record.name == "lumia.slack"]
        assert len(told) == len(why)
        assert all(line.startswith("config/slack.toml: [accounts.main]") for line in told)
        assert all(part in line for part, line in zip(why, told, strict=True))

    def test_the_doctor_tells_it_too_and_other_accounts_go_on(self) -> None:
        with Bot(SLACK, config={"slack": {"accounts": {"main": GOOD, "a b": GOOD, "late": {"owner": "ann"}}}}) as bot:
            assert bot.runtime.plugins is not None
            found = [one for name, one in lumia.checks.findings(bot.runtime.plugins) if name == "slack"]
        assert [one.level for one in found] == ["fail"] * 3 + ["risk"]
        assert "[accounts.a b] account 'a b' is not served" in found[0].message
        with Bot(SLACK, config={"slack": {"accounts": {"main": GOOD}}}) as bot:
            assert bot.runtime.plugins is not None
            found = [one for name, one in lumia.checks.findings(bot.runtime.plugins) if name == "slack"]
        assert [(one.level, one.message) for one in found] == [("ok", "accounts: main")]

    def test_secrets_may_come_from_the_environment(self, slack: SlackPeer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TEST_SLACK_TOKEN", f" {slack.bot_token}\n")
        table = {"bot_token_env": "TEST_SLACK_TOKEN", "signing_secret": "s", "api_url": slack.api_url}
        with Bot(SLACK, config={"slack": {"accounts": {"main": table}}}) as bot:
            bot.event("msg.send, dest=6.slack.group-C0GENERAL1", lumia.Box.any("hi", meta={"account": "main"}))
        assert [one["text"] for one in slack.posted] == ["hi"]

    def test_no_secret_is_shown(self) -> None:
        shown = repr(Account("main", bot_token="xoxb-s3cr3t", signing_secret="s3cr3t", app_token="xapp-s3cr3t"))
        assert "s3cr3t" not in shown


class TestAsking:
    def test_wrong_settings_are_told_before_slack_is_asked(self, slack: SlackPeer) -> None:
        table = {"bot_token": slack.bot_token, "api_url": slack.api_url}
        with Bot(SLACK, config={"slack": {"accounts": {"main": table}}}) as bot:
            assert bot.runtime.plugins is not None
            plugin: Any = bot.runtime.plugins.plugins["slack"].module
            found = plugin.adapter_check("main")
            assert not found.ok and found.detail.startswith("signing_secret is missing; copy it")
            bot.runtime.config.settings("slack").accounts = config(slack)["slack"]["accounts"]  # type: ignore[union-attr]
            assert plugin.adapter_check("main").ok
        assert [call.method for call in slack.calls] == ["auth.test"]

    def test_a_good_account_says_who_it_is(self, slack: SlackPeer) -> None:
        found = checking.ask(account(slack))
        assert (found.ok, found.identity, found.detail) == (True, "lumia (U0BOT00001) in Acme", "")

    def test_missing_scopes_are_named_with_what_they_are_for(self, slack: SlackPeer) -> None:
        slack.scopes = "chat:write,im:history,mpim:history,groups:history,channels:history,app_mentions:read,commands"
        found = checking.ask(account(slack))
        assert found.ok
        assert "users:read (names)" in found.detail and "files:write (files the bot sends)" in found.detail
        assert "im:history" not in found.detail

    def test_without_the_scope_to_write_it_is_no_good(self, slack: SlackPeer) -> None:
        slack.scopes = "im:history"
        found = checking.ask(account(slack))
        assert not found.ok and "chat:write is missing" in found.detail

    def test_a_wrong_token_is_told_with_the_way_out(self, slack: SlackPeer) -> None:
        found = checking.ask(Account("main", bot_token="xoxb-wrong", api_url=slack.api_url))
        assert not found.ok and "bot_token is wrong; copy it again" in found.detail

    def test_socket_mode_is_tried_as_well(self, slack: SlackPeer) -> None:
        with SocketPeer(slack):
            assert checking.ask(account(slack, mode="socket", app_token=slack.app_token)).ok
        slack.fail("apps.connections.open", Fault.error("missing_scope", needed="connections:write"))
        found = checking.ask(account(slack, mode="socket", app_token=slack.app_token))
        assert not found.ok and "needs connections:write" in found.detail


def test_it_registers_and_answers_who_is_alive(slack: SlackPeer) -> None:
    with Bot(SLACK, config=config(slack)) as bot:
        bot.event("bus.adapters.slack.find_active", {})
        (info,) = lumia.system.adapters.list()
        assert bot.runtime.plugins is not None
        about = bot.runtime.plugins.plugins["slack"].manifest.adapter
    assert (info.id, info.platform) == ("slack", "slack")
    assert about is not None and (about.platform, about.pid) == ("slack", 6)


def test_the_schema_has_a_key_for_every_setting() -> None:
    known = {name for name in Account.__dataclass_fields__ if name != "name"}
    with Bot(SLACK, config={"slack": {"accounts": {"main": {**GOOD}}}}) as bot:
        assert bot.runtime.config is not None
        table = dict(bot.runtime.config.settings("slack").accounts["main"])
    assert known <= set(table)
