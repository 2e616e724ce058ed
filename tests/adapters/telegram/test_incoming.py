"""Updates as messages and events: recorded ones, with python-telegram-bot's reading beside ours, and made-up ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import telegram
from hypothesis import given
from hypothesis import strategies as st

from adapters.telegram import incoming, outgoing, segments
from adapters.telegram.incoming import Happening, Talk
from adapters.telegram.rich import Rich
from adapters.telegram.segments import Me
from adapters.telegram.utf16 import Units
from lumia.errors import PayloadError

ME = Me("123456789", "lumia_bot", "Lumia")
RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("updates.json").read_text(encoding="utf-8"))
TALK = [one for one in RECORDED if "text" in one["expect"]]


def named(recorded: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("one", recorded, ids=[one["name"] for one in recorded])


def msg_of(update: dict[str, Any]) -> dict[str, Any]:
    found = incoming.read(update, "main", ME)
    assert isinstance(found, Talk)
    return found.msg


@named(RECORDED)
def test_a_recorded_update_is_what_it_should_be(one: dict[str, Any]) -> None:
    expect, found = one["expect"], incoming.read(one["update"], "main", ME)
    if expect.get("ignored"):
        assert found is None
    elif "event" in expect:
        assert isinstance(found, Happening)
        assert found.id == expect["event"]
        assert found.content.get("service") == expect.get("service")
        assert found.dedup == f"telegram:main:update:{one['update']['update_id']}"
    else:
        assert isinstance(found, Talk)
        msg = found.msg
        assert (msg["text"], msg["mentions_bot"]) == (expect["text"], expect["for_bot"])
        assert (msg.get("thread"), msg.get("reply_to")) == (expect.get("thread"), expect.get("reply_to"))
        assert [part for item in msg["media"] for part in (item["kind"], item["ref"])] == expect.get("media", [])
        if "sender" in expect:
            assert [msg["sender"]["id"], msg["sender"]["name"]] == expect["sender"]


@named(TALK)
def test_a_stranger_reads_the_same(one: dict[str, Any]) -> None:
    update = telegram.Update.de_json(one["update"], None)
    theirs, msg = update.effective_message, msg_of(one["update"])
    assert theirs is not None
    sender = theirs.sender_chat or theirs.from_user
    assert sender is not None
    assert msg["message_id"] == str(theirs.message_id)
    assert msg["chat"]["id"] == str(theirs.chat.id)
    assert msg["chat"]["kind"] == ("private" if theirs.chat.type == "private" else "group")
    assert msg["sender"]["id"] == str(sender.id)
    assert msg["time"] == theirs.date.timestamp()
    ours = outgoing.text_of(msg["segments"], marked=False)
    assert ours.text == (theirs.text or theirs.caption or "")
    known = {**theirs.parse_entities(), **theirs.parse_caption_entities()}
    commands = [one for one in ours.entities if one["type"] == "bot_command"]
    assert sorted((one["type"], _said(ours, one)) for one in ours.entities if not _within(one, commands)) == sorted(
        (str(entity.type), text) for entity, text in known.items()
    )
    answered = theirs.reply_to_message
    real = answered is not None and answered.forum_topic_created is None
    assert msg.get("reply_to") == (str(answered.message_id) if answered and real else None)
    direct, topic = theirs.direct_messages_topic, str(theirs.message_thread_id) if theirs.is_topic_message else None
    assert msg.get("thread") == (f"direct-{direct.topic_id}" if direct else topic)


def _said(rich: Rich, entity: dict[str, Any]) -> str:
    return Units(rich.text).cut(entity["offset"], entity["offset"] + entity["length"])


def _within(entity: dict[str, Any], commands: list[dict[str, Any]]) -> bool:
    """Tell whether an entity is the @name of a command, which Telegram doesn't name once more."""
    return entity["type"] == "mention" and any(
        one["offset"] < entity["offset"] < one["offset"] + one["length"] for one in commands
    )


def test_a_style_goes_on_through_a_mention() -> None:
    (one,) = (one for one in RECORDED if one["name"] == "bold over a mention")
    assert [(part["type"], part["data"]["entities"][0]["length"]) for part in msg_of(one["update"])["segments"]] == [
        ("text", 3), ("mention", 10), ("text", 4),
    ]  # fmt: skip


def test_of_a_photo_the_largest_size_is_taken_and_a_file_over_the_limit_says_so() -> None:
    by_name = {one["name"]: msg_of(one["update"]) for one in TALK}
    assert by_name["photo with a caption"]["media"][0]["size"] == 151000
    assert "20 MB" in by_name["document over the limit"]["media"][0]["error"]
    assert by_name["document"]["media"][0]["name"] == "plan.pdf"


def test_who_is_anonymous_speaks_as_the_chat_and_as_an_admin() -> None:
    (one,) = (one for one in RECORDED if one["name"] == "anonymous admin")
    sender = msg_of(one["update"])["sender"]
    assert sender == {"id": "-1001234567890", "name": "Tea room", "card": "Boss", "role": "admin"}


def test_an_ephemeral_message_has_an_id_of_its_own() -> None:
    update = json.loads(json.dumps(RECORDED[0]["update"]))
    update["message"] |= {"ephemeral_message_id": 5, "message_id": 0}
    assert msg_of(update)["message_id"] == "ephemeral-5"


def test_a_message_without_content_is_nothing() -> None:
    bare = {"message_id": 1, "date": 5, "chat": {"id": 7, "type": "private"}, "from": {"id": 7, "is_bot": False}}
    assert incoming.read({"update_id": 1, "message": bare}, "main", ME) is None


@pytest.mark.parametrize("update", [{}, [], None, {"update_id": "1"}, {"update_id": 1, "message": {"chat": {}}}])
def test_what_telegram_would_never_send_is_named(update: Any) -> None:
    with pytest.raises(PayloadError):
        incoming.read(update, "main", ME)


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
OBJECT = st.dictionaries(st.sampled_from(
    ["chat", "from", "text", "entities", "id", "type", "photo", "message_id", "offset", "length", "user", "options",
     "file_id", "file_size", "width", "title", "emoji", "location"]
), LEAF, max_size=4)  # fmt: skip
JSON = LEAF | OBJECT | st.lists(OBJECT, max_size=2)


@given(st.dictionaries(st.sampled_from(["text", "entities", "photo", "document", "from", "sender_chat", "poll",
                                        "reply_to_message", "quote", "caption", "date", "sticker", "forward_origin",
                                        "external_reply", "message_thread_id", "is_topic_message"]), JSON))  # fmt: skip
def test_whatever_a_message_holds_it_is_read_or_refused(fields: dict[str, Any]) -> None:
    update = {"update_id": 1, "message": {"message_id": 1, "chat": {"id": -5, "type": "group"}, **fields}}
    with contextlib.suppress(PayloadError):
        incoming.read(update, "main", ME)


TEXT = st.text(st.sampled_from("ab @/\n😀𝒳👍\u0301汉"), max_size=30)


@given(TEXT, st.lists(st.tuples(st.sampled_from(["bold", "mention", "text_mention", "code", "custom_emoji"]),
                                st.integers(-2, 40), st.integers(-2, 40)), max_size=6))  # fmt: skip
def test_segments_say_exactly_the_text_whatever_the_entities(text: str, wild: list[tuple[str, int, int]]) -> None:
    bounds = _bounds(text)
    entities = [
        {"type": kind, "offset": start, "length": length, "user": {"id": 5}, "custom_emoji_id": "9"}
        for kind, start, length in wild
        if {start, min(start + length, bounds[-1])} <= set(bounds)
    ]
    found = segments.read(text, entities, ME)
    assert outgoing.text_of(found, marked=False).text == text


def _bounds(text: str) -> list[int]:
    """Return the offsets, in UTF-16 units, at which a character begins or the text ends."""
    found = [0]
    for char in text:
        found.append(found[-1] + (2 if char > "\uffff" else 1))
    return found
