"""Reading `msg` payloads: whatever a platform leaves out or gets wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from handlers.heartflow.message import clean, cut, display_name, read

MINIMAL = {"platform": "qq", "chat": {"kind": "group", "id": "42"}, "sender": {"id": "7"}}


def test_a_group_message_is_not_addressed_to_the_bot_unless_it_mentions_it() -> None:
    assert not read({**MINIMAL, "text": "hi"}).addressed
    assert read({**MINIMAL, "text": "hi", "mentions_bot": True}).addressed


def test_a_private_message_is_always_addressed_to_the_bot() -> None:
    assert read({**MINIMAL, "chat": {"kind": "private", "id": "7"}}).addressed


def test_chats_of_two_accounts_and_kinds_have_scopes_of_their_own() -> None:
    variants = [
        MINIMAL,
        {**MINIMAL, "account": "b"},
        {**MINIMAL, "platform": "discord"},
        {**MINIMAL, "chat": {"kind": "private", "id": "42"}},
    ]
    assert len({read(variant).scope for variant in variants}) == 4


@pytest.mark.parametrize(
    "extra, kinds",
    [
        ({"text": "hi"}, {"text"}),
        ({"text": " \n"}, set()),
        ({"mentions_bot": True}, {"mention"}),
        ({"media": [{"kind": "image"}]}, {"image"}),
        ({"text": "look", "media": [{"kind": "file", "name": "a.zip"}]}, {"text", "file"}),
        ({"text": "[image][image]", "media": [{"kind": "image"}] * 2}, {"image"}),
        ({"text": "look [image]", "segments": [{"type": "text"}, {"type": "image"}]}, {"text", "image"}),
        ({"text": "[image]"}, {"text"}),
        ({"segments": [{"type": "reply", "data": {"id": "1"}}, {"type": "face", "data": {}}]}, {"face"}),
        ({"segments": [{"type": "text", "data": {"text": "  "}}, {"type": "at", "data": {}}]}, set()),
        ({"segments": ["rubbish", {}]}, {"unknown"}),
        ({"segments": 7, "media": "rubbish"}, set()),
    ],
)
def test_the_kinds_say_what_a_message_holds(extra: dict[str, Any], kinds: set[str]) -> None:
    assert read({**MINIMAL, **extra}).kinds == kinds


@pytest.mark.parametrize(
    "payload, missing",
    [
        ("hello", "the msg payload is str"),
        ({}, "chat is NoneType"),
        ({**MINIMAL, "sender": {}}, "sender.id is missing"),
        ({**MINIMAL, "chat": {"kind": "group", "id": ""}}, "chat.id is missing"),
        ({"chat": MINIMAL["chat"], "sender": MINIMAL["sender"]}, "platform is missing"),
    ],
)
def test_a_payload_without_chat_or_sender_is_refused_by_name(payload: Any, missing: str) -> None:
    with pytest.raises(lumia.errors.PayloadError, match=missing):
        read(payload)


@pytest.mark.parametrize(
    "time", [None, 0, -1, "yesterday", float("nan"), float("inf"), [], pytest.param(10**400, id="huge")]
)
def test_a_useless_time_stamp_counts_as_absent(time: Any) -> None:
    assert read({**MINIMAL, "time": time}).sent is None


def test_a_strangers_platform_brings_its_number_in_the_meta() -> None:
    assert read(MINIMAL).pid == 3
    assert read({**MINIMAL, "platform": "irc"}, {"pid": 101}).pid == 101
    assert read({**MINIMAL, "platform": "irc"}).pid is None


@given(st.text(st.characters(codec=None), max_size=200))
def test_cleaned_text_can_be_stored_and_sent(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned) == cleaned


def test_cleaning_keeps_lines_tabs_and_emoji() -> None:
    assert clean("a\tb\nc 👩‍💻 \ud83d\ude00\ud83d") == "a\tb\nc 👩‍💻 😀\ufffd"


@pytest.mark.parametrize(
    "raw, shown",
    [
        ("[Ann]:\nsystem：", "Ann system"),
        ("a\u202eevil\u2069", "a evil"),
        ("An\u200bn\ufeff", "Ann"),
        ("\u200b\u3164", ""),
        ("x" * 500, "x" * 40),
        ("\x00", ""),
    ],
)
def test_a_display_name_stays_on_one_line_and_holds_no_colon(raw: str, shown: str) -> None:
    assert display_name({"name": raw}) == shown


def test_the_name_used_in_the_group_comes_before_the_account_name() -> None:
    assert display_name({"name": "ann_1990", "card": "Ann"}) == "Ann"
    assert read({**MINIMAL, "sender": {"id": "7", "name": ""}}).sender_name == "7"


@given(st.text(max_size=50), st.integers(min_value=0, max_value=60))
def test_cut_text_says_how_much_is_missing(text: str, limit: int) -> None:
    shown = cut(text, limit)
    assert shown == text if len(text) <= limit else shown.endswith(f"[{len(text) - limit} more characters]")
    assert shown.startswith(text[:limit])
