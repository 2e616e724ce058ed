"""Calls to Slack over real sockets: what was surely not done, what nobody knows, and that no address is logged."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from adapters.slack import api
from adapters.slack.accounts import Account
from lumia.errors import NotDoneError, RejectedError, RetryAfterError, UnreachableError
from tests.peers.slack import BOT_TOKEN, Fault, SlackPeer

POST = {"channel": "C0GENERAL1", "text": "hi"}


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


@pytest.fixture
def account(slack: SlackPeer) -> Account:
    return Account("main", bot_token=slack.bot_token, api_url=slack.api_url)


def post(account: Account, **more: Any) -> dict[str, Any]:
    return api.call(account, "chat.postMessage", {**POST, "thread_ts": None, **more})


def test_a_call_goes_through_as_json_with_the_token_in_its_header(slack: SlackPeer, account: Account) -> None:
    assert post(account, text="grüß 👋")["ok"]
    (call,) = slack.calls
    assert call.content_type == "application/json; charset=utf-8"
    assert (call.token, call.arguments) == (BOT_TOKEN, {**POST, "text": "grüß 👋"})


def test_some_methods_take_forms_only(slack: SlackPeer, account: Account) -> None:
    api.form(account, "users.info", {"user": "U0ANN00001"})
    assert slack.calls[0].content_type == "application/x-www-form-urlencoded"


def test_scopes_come_with_every_answer(slack: SlackPeer, account: Account) -> None:
    assert {"chat:write", "files:write"} <= api.ask(account, "auth.test", {}).scopes


@pytest.mark.parametrize("seconds", [1, 30, 120])
def test_a_limit_says_when_to_come_back(slack: SlackPeer, account: Account, seconds: int) -> None:
    slack.fail("chat.postMessage", Fault.limited(seconds))
    with pytest.raises(RetryAfterError) as caught:
        post(account)
    assert caught.value.wait == seconds
    assert slack.posted == []


@pytest.mark.parametrize("header", ["", "soon", "-1"])
def test_a_limit_without_a_time_is_a_pause_all_the_same(slack: SlackPeer, account: Account, header: str) -> None:
    slack.fail("chat.postMessage", Fault(429, {"ok": False}, {"Retry-After": header}))
    with pytest.raises(RetryAfterError) as caught:
        post(account)
    assert caught.value.wait == 30


def test_a_limit_may_come_as_an_ordinary_answer(slack: SlackPeer, account: Account) -> None:
    slack.fail("chat.postMessage", Fault.error("ratelimited"))
    with pytest.raises(RetryAfterError):
        post(account)


@pytest.mark.parametrize(
    "code, way_out",
    [
        ("channel_not_found", "/invite @bot"), ("not_in_channel", "/invite @bot"), ("is_archived", "unarchive"),
        ("msg_too_long", "shorter"), ("invalid_auth", "bot_token"), ("token_revoked", "install the app again"),
        ("account_inactive", "install it again"), ("restricted_action", "admin"), ("no_text", "send a text"),
        ("invalid_blocks", "docs.slack.dev"), ("something_new", "docs.slack.dev"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_way_out(slack: SlackPeer, account: Account, code: str, way_out: str) -> None:
    slack.fail("chat.postMessage", Fault.error(code))
    with pytest.raises(api.SlackError, match=way_out) as caught:
        post(account)
    assert caught.value.code == code
    assert isinstance(caught.value, NotDoneError)


def test_a_missing_scope_is_named(slack: SlackPeer, account: Account) -> None:
    slack.fail("chat.postMessage", Fault.error("missing_scope", needed="chat:write", provided="commands"))
    with pytest.raises(api.SlackError, match="needs chat:write"):
        post(account)


def test_what_slack_explains_is_passed_on(slack: SlackPeer, account: Account) -> None:
    metadata = {"messages": ["[ERROR] must be less than 3001 characters"]}
    slack.fail("chat.postMessage", Fault.error("invalid_blocks", response_metadata=metadata))
    with pytest.raises(api.SlackError, match="less than 3001"):
        post(account)


@pytest.mark.parametrize("fault", [
    Fault(cut="before"), Fault(cut="after"), Fault(500), Fault(503, b"<html>"), Fault(200, b"not json"),
    Fault(200, b"[]"),
    Fault.error("internal_error"), Fault.error("fatal_error"), Fault(500, {"ok": False, "error": "whatever"}),
    Fault(302, b"", {"Location": "http://127.0.0.1:1/"}),
])  # fmt: skip
def test_of_a_lost_answer_nobody_knows_what_became(slack: SlackPeer, account: Account, fault: Fault) -> None:
    slack.fail("chat.postMessage", fault)
    with pytest.raises(api.OutcomeError) as caught:
        post(account)
    assert not isinstance(caught.value, NotDoneError)


def test_an_answer_that_takes_too_long_leaves_it_open(
    slack: SlackPeer, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack.fail("chat.postMessage", Fault(delay=5))
    request = httpx.Request("POST", slack.api_url + "chat.postMessage", content=b"{}")
    with pytest.raises(api.OutcomeError, match="ReadTimeout"):
        api.send(request, "chat.postMessage", httpx.Timeout(0.1))


def test_where_nobody_listens_nothing_was_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        url = f"http://127.0.0.1:{once.getsockname()[1]}/"
    with pytest.raises(UnreachableError, match="ConnectError"):
        post(Account("main", bot_token="x", api_url=url))


@pytest.mark.parametrize("account", [
    Account("main", bot_token="x", api_url="http://127.0.0.1:x/"), Account("main", bot_token="xoxb-ü", api_url="http://127.0.0.1:1/"),
])  # fmt: skip
def test_settings_that_make_no_request_are_told(account: Account) -> None:
    with pytest.raises(RejectedError, match="look at the account's settings"):
        post(account)


def test_a_file_that_could_not_be_uploaded_was_surely_not_sent(slack: SlackPeer, account: Account) -> None:
    ticket = api.form(account, "files.getUploadURLExternal", {"filename": "a.txt", "length": 3})
    slack.fail("upload", Fault(500), Fault(500))
    with pytest.raises(UnreachableError, match="answered with 500"):
        api.upload(ticket["upload_url"], b"abc")


@pytest.mark.parametrize(
    "status, wanted", [(404, api.SlackError), (410, api.SlackError), (429, RetryAfterError), (500, api.OutcomeError)]
)
def test_an_answer_to_a_command_can_fail_too(slack: SlackPeer, status: int, wanted: type[Exception]) -> None:
    slack.fail("response_url", Fault(status))
    with pytest.raises(wanted):
        api.respond(f"{slack.url}/commands/T1/2/secret", {"text": "hi"})


def test_no_address_and_no_token_reaches_a_log(
    slack: SlackPeer, account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        api.respond(f"{slack.url}/commands/T1/2/s3cr3t", {"text": "hi"})
        post(account)
        with pytest.raises(api.SlackError) as caught:
            api.call(Account("main", bot_token="xoxb-wr0ng", api_url=slack.api_url), "chat.postMessage", POST)
    shown = caplog.text + str(caught.value) + repr(account)
    assert not [secret for secret in ("s3cr3t", BOT_TOKEN, "wr0ng") if secret in shown]
