"""Our Slack is right when Slack's own library can't tell the difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from tests.peers.slack import BOT, SIGNING_SECRET, Fault, SlackPeer
from tests.peers.slack_events import EventsSender
from tests.peers.slack_socket import SocketPeer
from tests.support.wait import until


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


@pytest.fixture
def client(slack: SlackPeer) -> WebClient:
    return WebClient(slack.bot_token, base_url=slack.api_url, timeout=5)


def test_slacks_library_posts_updates_and_deletes(slack: SlackPeer, client: WebClient) -> None:
    known = client.auth_test()
    assert (known["user_id"], known.headers["X-OAuth-Scopes"]) == (BOT, slack.scopes)
    posted = client.chat_postMessage(channel="C0GENERAL1", text="hi")
    reply = client.chat_postMessage(channel=posted["channel"], text="there", thread_ts=posted["ts"])
    client.chat_update(channel="C0GENERAL1", ts=posted["ts"], text="hello")
    client.chat_delete(channel="C0GENERAL1", ts=reply["ts"])
    assert [one["text"] for one in slack.posted] == ["hi", "there"]
    assert (slack.updated[0]["text"], slack.deleted[0]["ts"]) == ("hello", reply["ts"])


def test_slacks_library_uploads_files(slack: SlackPeer, client: WebClient) -> None:
    done = client.files_upload_v2(
        channel="C0GENERAL1", filename="a.txt", content="abc", title="A", thread_ts="1.000001"
    )
    (file_id,) = slack.uploads
    assert slack.uploads[file_id] == b"abc"
    assert (done["files"][0]["id"], slack.shared[0]["thread_ts"]) == (file_id, "1.000001")


def test_slacks_library_sees_the_errors(slack: SlackPeer, client: WebClient) -> None:
    slack.channels["C0OLD00001"] = {"member": True, "archived": True}
    slack.channels["C0OTHER001"] = {"member": False}
    for channel, code in (
        ("C0NOWHERE1", "channel_not_found"),
        ("C0OLD00001", "is_archived"),
        ("C0OTHER001", "not_in_channel"),
    ):
        with pytest.raises(SlackApiError) as caught:
            client.chat_postMessage(channel=channel, text="hi")
        assert caught.value.response["error"] == code
    with pytest.raises(SlackApiError, match="invalid_auth"):
        WebClient("xoxb-wrong", base_url=slack.api_url).auth_test()


def test_slacks_library_heeds_the_limits(slack: SlackPeer, client: WebClient) -> None:
    slack.fail("chat.postMessage", Fault.limited(1))
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="C0GENERAL1", text="hi")
    assert (caught.value.response.status_code, caught.value.response.headers["Retry-After"]) == (429, "1")
    slack.fail("chat.postMessage", Fault.limited(1))
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=1))
    assert client.chat_postMessage(channel="C0GENERAL1", text="again")["ok"]


def test_slacks_library_finds_people_and_conversations(slack: SlackPeer, client: WebClient) -> None:
    assert client.users_info(user="U0ANN00001")["user"]["profile"]["display_name"] == "Ann"
    assert client.conversations_open(users="U0ANN00001")["channel"]["id"] == "D0ANN00001"


def test_slacks_library_accepts_the_signatures() -> None:
    sender = EventsSender("http://127.0.0.1/")
    signed = sender.signed(b'{"type": "event_callback"}')
    assert SignatureVerifier(SIGNING_SECRET).is_valid_request(b'{"type": "event_callback"}', signed)


def test_slacks_library_speaks_socket_mode(slack: SlackPeer) -> None:
    with SocketPeer(slack) as peer:
        seen: list[SocketModeRequest] = []

        def answer(client: Any, request: SocketModeRequest) -> None:
            seen.append(request)
            client.send_socket_mode_response(SocketModeResponse(request.envelope_id))

        web = WebClient(base_url=slack.api_url)
        client = SocketModeClient(slack.app_token, web_client=web, ping_interval=1)
        client.socket_mode_request_listeners.append(answer)
        client.connect()
        try:
            first = peer.send("events_api", EventsSender("http://x/").envelope({"type": "message"}))
            until(lambda: first in peer.acknowledged)
            peer.announce("refresh_requested")
            until(lambda: peer.opened == 2)
            second = peer.send("slash_commands", {"command": "/ask"})
            until(lambda: second in peer.acknowledged)
        finally:
            client.auto_reconnect_enabled = False
            client.close()
        assert [request.type for request in seen] == ["events_api", "slash_commands"]
