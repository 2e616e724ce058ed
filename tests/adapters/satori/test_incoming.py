"""Events become messages; NoneBot's Satori adapter reads the same events as a second opinion."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nonebot.adapters.satori.event import PrivateMessageCreatedEvent, PublicMessageCreatedEvent

import lumia
from adapters.satori import accounts, incoming
from adapters.satori.accounts import Login, Server
from tests.peers.satori import Satori

ME, SERVER = Login("mock", "9"), Server("main", "http://127.0.0.1:1", platform="mock", self_id="9")


@pytest.fixture(scope="module")
def peer() -> Any:
    with Satori() as running:
        yield running


def read(event: dict[str, Any], proxied: tuple[str, ...] = ()) -> dict[str, Any]:
    event = json.loads(json.dumps(event))
    found = incoming.reading(event)
    media = [incoming.file(item, proxied) for item in found.media]
    mine = incoming.quoted_author(event, found) == ME.self_id
    return incoming.message(event, SERVER, ME, found, media, answers_bot=mine)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    "content, text, named",
    [
        ("hi &lt;there&gt;", "hi <there>", False),
        ('<at id="9" name="Bot"/> hello', "@Bot hello", True),
        ('<at id="4" name="Eve"/>', "@Eve", False),
        ("<b>one</b> two<br/>three", "one two\nthree", False),
    ],
)
def test_a_message_says_what_nonebot_reads(peer: Satori, content: str, text: str, named: bool, private: bool) -> None:
    event = peer.say(content=content, private=private, channel="77")
    msg = read(event)
    kind = PrivateMessageCreatedEvent if private else PublicMessageCreatedEvent
    theirs = kind.model_validate(copy.deepcopy(event))
    assert msg["text"] == text
    assert (msg["mentions_bot"], msg["sender"]["id"]) == (named or private, theirs.get_user_id())
    assert msg["chat"] == {"kind": "private" if private else "group", "id": theirs.channel.id} | (
        {} if private else {"name": "Guild"}
    )
    assert msg["message_id"] == theirs.msg_id
    assert msg["time"] == pytest.approx(theirs.timestamp.timestamp())
    assert [one["id"] for one in msg["mentions"]] == [one.data["id"] for one in theirs.get_message()["at"]]


def test_a_quote_of_the_bots_words_is_for_the_bot(peer: Satori) -> None:
    inside = read(peer.say(content='<quote id="s1"><author id="9" name="Bot"/>said</quote>and?'))
    assert (inside["mentions_bot"], inside["reply_to"], inside["text"]) == (True, "s1", "and?")
    koishi = read(peer.say(content='<quote id="s1"><user id="4"/>said</quote>and?'))
    assert (koishi["mentions_bot"], koishi["reply_to"]) == (False, "s1")
    beside = read(peer.say("and?", message={"id": "q1", "content": "and?", "quote": {"id": "s1", "user": {"id": "9"}}}))
    assert (beside["mentions_bot"], beside["reply_to"]) == (True, "s1")
    assert beside["segments"][0] == {"type": "reply", "data": {"id": "s1"}}


def test_files_are_addresses_or_asked_of_the_server(peer: Satori) -> None:
    msg = read(
        peer.say(content='<img src="https://x.example/a.png" title="a.png" width="3"/><file src="internal:mock/9/f"/>'
                         '<audio src="https://hidden.example/b"/><video src="file:///etc/passwd"/>'),
        ("https://hidden.example/",),
    )  # fmt: skip
    assert [(one["kind"], one.get("url"), one.get("ref")) for one in msg["media"]] == [
        ("image", "https://x.example/a.png", "https://x.example/a.png"),
        ("file", None, "internal:mock/9/f"),
        ("audio", "https://hidden.example/b", "proxy:https://hidden.example/b"),
        ("video", None, None),
    ]
    assert "only it can read" in msg["media"][3]["error"] and msg["media"][0]["name"] == "a.png"
    assert msg["segments"][0] == {"type": "image", "data": {"media": 0, "attributes": {"width": "3"}}}


@pytest.mark.parametrize(
    "event, login",
    [
        ({"login": {"platform": "qq", "user": {"id": "1"}}}, Login("qq", "1")),
        ({"platform": "qq", "self_id": 1}, Login("qq", "1")),
        ({"login": {"sn": 1, "status": 2, "platform": None}}, None),
        ({}, None),
    ],
)
def test_whose_event_it_is(event: dict[str, Any], login: Login | None) -> None:
    assert incoming.login_of(event) == login


def test_what_bots_say_is_no_talk(peer: Satori) -> None:
    assert incoming.ignored(peer.say("mine", user="9"), ME)
    assert incoming.ignored(peer.say("a bot's", user="6", member={"user": {"id": "6"}}), ME) == ""
    assert incoming.ignored({"user": {"id": "6", "is_bot": True}}, ME)


def test_a_message_without_a_channel_is_refused() -> None:
    with pytest.raises(lumia.errors.PayloadError, match="names no channel"):
        read({"message": {"id": "1", "content": "x"}, "user": {"id": "5"}})


@pytest.mark.parametrize(
    "login", [Login("discord", "80351"), Login("matrix", "@a:b.c/d%"), Login("sandbox:x", "a b"), Login("qq", "机器人")]
)
def test_an_accounts_name_can_be_read_back(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("main", "http://127.0.0.1:1")
    monkeypatch.setattr(accounts, "servers", lambda: [server])
    assert accounts.required(server.account(login)) == (server, login)
    with pytest.raises(lumia.errors.PayloadError):
        accounts.required("main/only")


KEYS = ["id", "type", "name", "nick", "user", "login", "platform", "channel", "guild", "member", "message", "content",
        "quote", "created_at", "timestamp", "sn", "is_bot", "self_id"]  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.sampled_from(['<quote id="1"><author id="9"/></quote><img src="x"/>', "9"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_an_event_of_any_shape_is_a_message_or_a_payload_error(event: dict[str, Any]) -> None:
    incoming.login_of(event), incoming.ignored(event, ME), incoming.event_id(event), incoming.fingerprint(event)
    incoming.meta(event, ME)
    with suppress(lumia.errors.PayloadError):
        read(event)
