"""CQ codes, segments and frames: exact both ways, and nothing a peer sends breaks them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from adapters.onebot import cq, frames, incoming, segments
from lumia.errors import PayloadError

TEXTS = st.text(max_size=30)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="=,[]&"), min_size=1, max_size=8)
KINDS = st.sampled_from(["at", "reply", "face", "image", "record", "video", "file", "json", "dice", "mface", "x"])
IDS = st.one_of(st.integers(-(2**31), 2**63), st.integers(0, 2**40).map(str))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": value}}


STRINGS = st.lists(
    st.one_of(
        TEXTS.filter(bool).map(text),
        st.builds(lambda kind, data: {"type": kind, "data": data}, KINDS, st.dictionaries(KEYS, TEXTS, max_size=4)),
    ),
    max_size=6,
)


def merged(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Texts side by side are one in the string form."""
    joined: list[dict[str, Any]] = []
    for segment in found:
        if segment["type"] == "text" and joined and joined[-1]["type"] == "text":
            joined[-1] = text(joined[-1]["data"]["text"] + segment["data"]["text"])
        else:
            joined.append(segment)
    return joined


class TestStrings:
    @pytest.mark.parametrize(
        "string, wanted",
        [
            ("", []),
            ("hello", [text("hello")]),
            ("[CQ:at,qq=1] hi", [{"type": "at", "data": {"qq": "1"}}, text(" hi")]),
            ("[CQ:dice]", [{"type": "dice", "data": {}}]),
            ("a&amp;#91;b", [text("a&#91;b")]),
            ("&#91;CQ:at,qq=1&#93;", [text("[CQ:at,qq=1]")]),
            ("[CQ:share,url=http://a/?b=1&amp;c=2&#44;3,title=x=y]",
             [{"type": "share", "data": {"url": "http://a/?b=1&c=2,3", "title": "x=y"}}]),
            ("[not a code] [CQ:", [text("[not a code] [CQ:")]),
        ],
    )  # fmt: skip
    def test_a_string_is_read(self, string: str, wanted: list[dict[str, Any]]) -> None:
        assert cq.decode(string) == wanted

    def test_user_text_becomes_no_code(self) -> None:
        assert cq.encode([text("[CQ:at,qq=all]")]) == "&#91;CQ:at,qq=all&#93;"

    def test_booleans_are_digits_and_none_is_left_out(self) -> None:
        assert cq.encode([{"type": "image", "data": {"cache": False, "url": None}}]) == "[CQ:image,cache=0]"

    @given(STRINGS)
    def test_a_string_comes_back_as_the_same_segments(self, found: list[dict[str, Any]]) -> None:
        assert cq.decode(cq.encode(found)) == merged(found)

    @given(st.text())
    def test_any_string_is_read_and_written_the_same(self, string: str) -> None:
        once = cq.decode(string)
        assert cq.decode(cq.encode(once)) == merged(once)


def received() -> st.SearchStrategy[dict[str, Any]]:
    """Segments as peers send them, ids as numbers or digits."""
    more = st.dictionaries(st.sampled_from(["seq", "summary", "sub_type", "path"]), TEXTS, max_size=2)
    link = st.sampled_from(["https://a.example/1", "http://b.example/?x=1&y=2", "/app/voice.amr", ""])
    return st.one_of(
        TEXTS.map(text),
        st.builds(lambda id, rest: {"type": "at", "data": {"qq": id, **rest}}, IDS, more),
        st.builds(lambda rest: {"type": "at", "data": {"qq": "all", **rest}}, more),
        st.builds(lambda id, rest: {"type": "reply", "data": {"id": id, **rest}}, IDS, more),
        st.builds(lambda id: {"type": "face", "data": {"id": id}}, IDS),
        st.builds(
            lambda kind, file, url, rest: {"type": kind, "data": {"file": file, "url": url, **rest}},
            st.sampled_from(list(segments.MEDIA)), TEXTS, link, more,
        ),
        st.builds(lambda kind, data: {"type": kind, "data": data},
                  st.sampled_from(["json", "forward", "mface", "dice"]), st.dictionaries(st.text(), JSON, max_size=3)),
    )  # fmt: skip


def as_text(segment: dict[str, Any]) -> dict[str, Any]:
    """The segment with its ids as text, as the standard wants them."""
    key = {"at": "qq", "reply": "id", "face": "id"}.get(segment["type"])
    return segment if key is None else {**segment, "data": {**segment["data"], key: str(segment["data"][key])}}


class TestSegments:
    @given(st.lists(received(), max_size=8))
    def test_what_came_goes_back_as_it_came(self, message: list[dict[str, Any]]) -> None:
        assert segments.write(*segments.read(message)) == [as_text(segment) for segment in message]

    @given(st.lists(received(), max_size=8))
    def test_what_came_is_a_valid_payload(self, message: list[dict[str, Any]]) -> None:
        event = {"post_type": "message", "message_type": "group", "group_id": 1, "user_id": 2, "self_id": 3,
                 "message_id": 4, "time": 1, "message": message}  # fmt: skip
        msg = incoming.message(frames.cleaned(event), "main", "3")
        assert lumia.payloads.validate("msg", msg) == msg

    def test_a_medium_is_named_by_its_place(self) -> None:
        image = {"type": "image", "data": {"file": "a.png", "url": "https://x.example/a", "file_size": "12"}}
        parts, media = segments.read([text("see"), image])
        assert parts[1] == {"type": "image", "data": {"file_size": "12", "media": 0}}
        assert media == [{"kind": "image", "ref": "a.png", "url": "https://x.example/a", "name": "a.png", "size": 12}]

    def test_a_path_on_the_peers_machine_is_no_link(self) -> None:
        _, media = segments.read([{"type": "record", "data": {"file": "a.amr", "url": "/root/a.amr"}}])
        assert "url" not in media[0]

    def test_what_another_platform_calls_its_own_is_left_out(self) -> None:
        assert segments.write([{"type": "telegram.poll", "data": {}}, text("x")]) == [text("x")]

    @given(JSON)
    def test_any_message_is_read(self, message: Any) -> None:
        segments.write(*segments.read(message))


class TestFrames:
    @given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
    def test_any_bytes_are_a_frame_or_a_payload_error(self, data: bytes | str) -> None:
        try:
            frame = frames.parse(data)
        except PayloadError:
            return
        assert isinstance(frame, dict)

    @pytest.mark.parametrize("data", ["[" * 100_000, '{"a": NaN}', '{"a": ' + "9" * 5000 + "}", "null", "", b"\xff"])
    def test_what_is_no_frame_is_said_to_be_none(self, data: str | bytes) -> None:
        with pytest.raises(PayloadError):
            frames.parse(data)

    def test_what_cannot_be_stored_is_replaced(self) -> None:
        assert frames.parse('{"\\ud800": ["a\\u0000b"]}') == {"\ufffd": ["a\ufffdb"]}

    @given(st.dictionaries(st.sampled_from(["status", "retcode", "data", "echo", "message", "stream"]), JSON))
    def test_any_answer_is_read(self, frame: dict[str, Any]) -> None:
        found = frames.answer(frame)
        assert str(found)
        assert found.last in (True, False)

    @given(st.dictionaries(st.sampled_from(
        ["post_type", "message_type", "notice_type", "request_type", "user_id", "group_id", "message", "sender", "time",
         "self_id", "message_id", "sub_type", "anonymous", "group_name"]), JSON))  # fmt: skip
    def test_any_event_is_judged(self, event: dict[str, Any]) -> None:
        event = frames.cleaned({**event, "post_type": "message"})
        incoming.event_id(event)
        incoming.is_talk(event)
        if incoming.chat_of(event) is None:
            return
        try:
            msg = incoming.message(event, "main", "1")
        except PayloadError:
            return
        json.dumps(msg)
