"""Events become messages; nonebot-adapter-onebot reads the same frames as a second opinion."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from nonebot.adapters.onebot.v11 import Adapter, GroupMessageEvent, MessageEvent
from nonebot.adapters.onebot.v11.bot import _check_at_me

import lumia
from adapters.onebot import incoming, segments

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).with_name("frames.json")).read_text(encoding="utf-8"))
NAMES = [f"{one['peer']}: {one['name']}" for one in RECORDED]
MESSAGES = [one["frame"] for one in RECORDED if one["frame"]["post_type"] == "message"]
NOTICES = {one["name"]: one["frame"] for one in RECORDED if one["frame"]["post_type"] in ("notice", "request")}


def named(name: str) -> dict[str, Any]:
    frame: dict[str, Any] = next(one["frame"] for one in RECORDED if one["name"] == name)
    return frame


def message(name: str) -> dict[str, Any]:
    return incoming.message(named(name), "main", "10001")


def theirs(frame: dict[str, Any]) -> MessageEvent:
    event = Adapter.json_to_event(copy.deepcopy(frame))
    assert isinstance(event, MessageEvent)
    return event


class TestSecondOpinion:
    def test_there_are_frames_enough_of_both_peers(self) -> None:
        assert len(MESSAGES) >= 40
        assert {one["peer"] for one in RECORDED} == {"napcat", "lagrange"}

    @pytest.mark.parametrize("frame", MESSAGES, ids=[name for name, one in zip(NAMES, RECORDED, strict=True)
                                                     if one["frame"]["post_type"] == "message"])  # fmt: skip
    def test_both_read_the_same(self, frame: dict[str, Any]) -> None:
        event, msg = theirs(frame), incoming.message(frame, "main", "10001")
        said = "".join(part["data"]["text"] for part in msg["segments"] if part["type"] == "text")
        assert said == event.get_plaintext()
        kinds = [part["type"] for part in segments.write(msg["segments"], msg["media"])]
        assert kinds == [part.type for part in event.message]
        at = [str(part.data["qq"]) for part in event.message if part.type == "at"]
        assert [named["id"] for named in msg["mentions"]] == [id for id in at if id != "all"]
        replied = [str(part.data["id"]) for part in event.message if part.type == "reply"]
        assert msg.get("reply_to") == (replied[0] if replied else None)
        assert (msg["message_id"], msg["sender"]["id"], msg["time"]) == (
            str(event.message_id), str(event.user_id), float(event.time),
        )  # fmt: skip
        if isinstance(event, GroupMessageEvent):
            assert msg["chat"]["kind"] == "group"
            assert msg["chat"]["id"] == str(event.group_id)
        else:
            assert msg["chat"] == {"kind": "private", "id": str(event.user_id)}

    @pytest.mark.parametrize("frame", MESSAGES, ids=lambda frame: str(frame["message_id"]))
    def test_what_is_for_the_bot_for_them_is_for_us(self, frame: dict[str, Any]) -> None:
        """They look at the first and the last segment, we at all of them."""
        event, msg = theirs(frame), incoming.message(frame, "main", "10001")
        without_reply = [part for part in event.message if part.type != "reply"]
        event.message[:] = without_reply
        _check_at_me(None, event)  # type: ignore[arg-type]
        anywhere = any(part.type == "at" and str(part.data["qq"]) == "10001" for part in without_reply)
        assert msg["mentions_bot"] == (event.to_me or anywhere)


class TestMessages:
    def test_mentions_are_exact(self) -> None:
        assert message("mention of the bot in the middle only")["mentions_bot"]
        assert not message("mention of somebody else")["mentions_bot"]
        assert not message("mention of everybody")["mentions_bot"]
        assert not message("brackets and ampersands in text")["mentions_bot"]

    def test_the_text_names_who_is_mentioned(self) -> None:
        assert message("mention of the bot with a name")["text"] == "@小光 hi"
        assert message("mention of the bot first")["text"] == "@10001 今天天气怎么样？"

    def test_a_temporary_chat_is_private_although_it_names_a_group(self) -> None:
        known, unknown = named("a temporary chat of a known group"), named("a temporary chat of an unknown group")
        assert incoming.chat_of(known) == incoming.Chat("private", "30003", group="987654321")
        assert incoming.chat_of(unknown) == incoming.Chat("private", "30003")

    @pytest.mark.parametrize(
        "part, text",
        [
            ({"type": "at", "data": {"qq": "all"}}, "@all"),
            ({"type": "mface", "data": {"summary": "[开心]", "emoji_id": "1"}}, "[开心]"),
            ({"type": "image", "data": {"file": "a.png", "summary": "[动画表情]"}}, "[动画表情]"),
            ({"type": "image", "data": {"file": "a.png", "summary": ""}}, "[image]"),
            ({"type": "face", "data": {"id": "14", "raw": {"faceText": "/微笑"}}}, "[微笑]"),
            ({"type": "face", "data": {"id": "14"}}, "[emoji]"),
            ({"type": "json", "data": {"data": json.dumps({"prompt": "[分享]A talk", "meta": {"news": {
                "title": "A talk", "jumpUrl": "https://example.org/t"}}})}}, "[分享]A talk https://example.org/t"),
            ({"type": "json", "data": {"data": "{"}}, "[onebot.json]"),
            ({"type": "json", "data": {"data": "[1]"}}, "[onebot.json]"),
            ({"type": "markdown", "data": {"content": "# Tea"}}, "# Tea"),
            ({"type": "location", "data": {"lat": "1.5", "lon": "2", "title": "Tea room"}}, "[Tea room]"),
            ({"type": "forward", "data": {"id": "f1"}}, "[onebot.forward]"),
            ({"type": "forward", "data": {"id": "f1", "content": [
                {"sender": {"nickname": "Ann"}, "message": [{"type": "text", "data": {"text": "hi"}}]},
                {"type": "node", "data": {"nickname": "Bob", "content": "[CQ:face,id=1]yes"}},
            ]}}, "[forwarded:\nAnn: hi\nBob: [emoji]yes]"),
        ],
    )  # fmt: skip
    def test_what_a_segment_says_is_read(self, part: dict[str, Any], text: str) -> None:
        frame = {**named("plain text in a group"), "message": [part]}
        assert incoming.message(frame, "main", "10001")["text"] == text

    def test_ids_are_texts_however_large(self) -> None:
        msg = message("ids beyond 32 bits")
        assert (msg["chat"]["id"], msg["sender"]["id"]) == ("9007199254740993", "5000000001")

    def test_media_come_by_reference(self) -> None:
        msg = message("an image")
        assert msg["segments"] == [
            {"type": "image", "data": {"sub_type": 0, "file_size": "20480", "summary": "[动画表情]", "media": 0}}
        ]
        assert msg["media"][0]["url"].startswith("https://multimedia.nt.qq.com.cn/")
        assert message("a voice message")["media"] == [
            {"kind": "audio", "ref": "b8.amr", "name": "b8.amr", "size": 3120}
        ]

    def test_the_sender_is_told_as_far_as_it_is_known(self) -> None:
        assert message("plain text in a group")["sender"] == {
            "id": "20002", "name": "小明", "card": "群里的小明", "role": "member",
        }  # fmt: skip
        assert message("a sender with next to nothing")["sender"] == {"id": "20002", "name": ""}
        assert message("an anonymous member")["sender"]["name"] == "神秘的熊猫"

    def test_the_group_has_its_name(self) -> None:
        assert message("plain text in a group")["chat"] == {"kind": "group", "id": "987654321", "name": "测试群"}

    def test_what_the_bot_said_is_no_talk(self) -> None:
        assert not incoming.is_talk(named("own message, reported"))
        assert not incoming.is_talk(named("own message as a plain message"))
        assert incoming.is_talk(named("plain text in a group"))

    def test_a_line_of_the_platform_is_no_talk(self) -> None:
        assert not incoming.is_talk({**named("plain text in a group"), "sub_type": "notice"})

    def test_a_message_without_an_id_is_told_by_its_content(self) -> None:
        frame = {key: value for key, value in named("a friend").items() if key != "message_id"}
        assert incoming.message_id(frame) == incoming.message_id(dict(reversed(frame.items())))
        assert incoming.message_id(frame) != incoming.message_id({**frame, "time": 1})

    def test_an_event_from_nowhere_is_no_message(self) -> None:
        with pytest.raises(lumia.errors.PayloadError):
            incoming.message({"post_type": "message", "message_type": "group"}, "main", "1")


class TestNotices:
    @pytest.mark.parametrize("name", sorted(NOTICES))
    def test_each_is_an_event_of_its_type(self, name: str) -> None:
        event = NOTICES[name]
        kind = event["post_type"]
        assert incoming.event_id(event) == f"onebot.{kind}.{event[f'{kind}_type']}"

    def test_messages_and_odd_types_are_none(self) -> None:
        assert incoming.event_id(named("a friend")) == ""
        assert incoming.event_id({"post_type": "notice", "notice_type": "a b"}) == ""
        assert incoming.event_id({"post_type": "notice", "notice_type": ["x"]}) == ""

    def test_the_same_notice_has_the_same_fingerprint(self) -> None:
        poke = NOTICES["a poke"]
        assert incoming.fingerprint(poke) == incoming.fingerprint(dict(reversed(poke.items())))
        assert incoming.fingerprint(poke) != incoming.fingerprint({**poke, "time": 1})
