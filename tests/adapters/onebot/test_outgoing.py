"""What a send becomes, and what an answer says about it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.onebot import frames, outgoing
from adapters.onebot.errors import UnknownOutcomeError
from adapters.onebot.frames import Answer
from lumia.errors import RejectedError, UnreachableError

PNG = {"digest": "d", "size": 3, "media_type": "image/png"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": value}}


def chunks(value: str, limit: int) -> Sequence[str]:
    return [value[at : at + limit] for at in range(0, len(value), limit)]


def cut(parts: list[dict[str, Any]], reply_to: str | None = None, limit: int = 10) -> list[list[dict[str, Any]]]:
    return outgoing.messages(parts, reply_to, limit, chunks)


class TestMessages:
    def test_user_text_goes_as_a_segment_and_never_as_a_code(self) -> None:
        assert cut([text("[CQ:at,qq=all]")], limit=99) == [[text("[CQ:at,qq=all]")]]

    def test_a_mention_a_face_and_a_quote_have_their_segments(self) -> None:
        parts = [{"type": "mention", "data": {"id": "7"}}, text(" hi"), {"type": "emoji", "data": {"id": "178"}}]
        assert cut(parts, reply_to="-55") == [
            [{"type": "reply", "data": {"id": "-55"}}, {"type": "at", "data": {"qq": "7"}}, text(" hi"),
             {"type": "face", "data": {"id": "178"}}],
        ]  # fmt: skip

    def test_a_quote_that_is_no_message_id_is_left_out(self) -> None:
        assert cut([text("hi")], reply_to="webhook-1") == [[text("hi")]]

    def test_only_the_first_of_several_messages_quotes(self) -> None:
        found = cut([text("0123456789abc")], reply_to="1")
        assert [part["type"] for message in found for part in message] == ["reply", "text", "text"]

    def test_a_video_and_a_voice_go_alone(self) -> None:
        video = {"type": "video", "data": {"url": "https://x.example/v"}}
        voice = {"type": "audio", "data": {"blob": PNG}}
        found = cut([text("look"), video, voice, text("nice")])
        assert [[part["type"] for part in message] for message in found] == [["text"], ["video"], ["record"], ["text"]]

    def test_what_nothing_is_left_of_is_rejected(self) -> None:
        with pytest.raises(RejectedError):
            cut([{"type": "telegram.poll", "data": {}}, {"type": "image", "data": {"media": 0}}])

    @given(st.lists(st.text(max_size=40), min_size=1).filter(any), st.integers(1, 12))
    def test_nothing_of_a_long_text_is_lost_and_nothing_is_too_long(self, texts: list[str], limit: int) -> None:
        found = cut([text(one) for one in texts], limit=limit)
        said = ["".join(part["data"]["text"] for part in message) for message in found]
        assert "".join(said) == "".join(texts)
        assert all(len(one) <= limit for one in said)

    def test_a_file_is_base64(self) -> None:
        image = {"type": "image", "data": {"blob": PNG, "summary": "a cat"}}
        message = cut([image])[0]
        filled = outgoing.filled(message, lambda blob: b"\x89PN")
        encoded = base64.b64encode(b"\x89PN").decode()
        assert filled == [{"type": "image", "data": {"file": f"base64://{encoded}", "summary": "a cat"}}]

    def test_a_temporary_chat_names_its_group(self) -> None:
        action, params = outgoing.request("private", "30003", [text("x")], "9")
        assert (action, params["user_id"], params["group_id"]) == ("send_private_msg", 30003, 9)
        assert outgoing.request("group", "12", [text("x")])[1] == {"group_id": 12, "message": [text("x")]}


class TestAnswers:
    def test_a_sent_message_has_its_id_as_text(self) -> None:
        assert outgoing.message_id(Answer("ok", 0, {"message_id": -2016483201})) == {"message_id": "-2016483201"}

    @pytest.mark.parametrize(
        "answer, error",
        [
            (Answer("async", 1), UnknownOutcomeError),
            (Answer("failed", 1200, message="Timeout: NTEvent serviceAndMethod:…/sendMsg"), UnknownOutcomeError),
            (Answer("failed", 1200, message='EventChecker Failed: … "result": 110'), RejectedError),
            (Answer("failed", 1400, message="group_id is required"), RejectedError),
            (Answer("failed", 1404), RejectedError),
            (Answer("failed", 1403), UnreachableError),
            (Answer("failed", 1401), UnreachableError),
            (Answer("ok", 120), RejectedError),  # Lagrange: QQ refused it
            (Answer("failed", 100), RejectedError),
            (Answer("", -1, message="Bad Gateway"), UnknownOutcomeError),
        ],
    )
    def test_each_answer_has_its_consequence(self, answer: Answer, error: type[Exception]) -> None:
        with pytest.raises(error):
            outgoing.message_id(answer)

    def test_a_stream_ends_with_the_frame_that_is_no_part(self) -> None:
        part = frames.answer({"status": "ok", "retcode": 0, "data": {"type": "stream"}, "stream": "stream-action"})
        end = frames.answer({"status": "ok", "retcode": 0, "data": {"type": "response"}, "stream": "stream-action"})
        plain = frames.answer({"status": "ok", "retcode": 0, "data": {"type": "stream"}, "stream": "normal-action"})
        assert (part.last, end.last, plain.last) == (False, True, True)


class TestSignatures:
    def test_two_ways_to_write_a_message_have_one_signature(self) -> None:
        ours = [{"type": "reply", "data": {"id": "1"}}, text("a "), text("b"), {"type": "at", "data": {"qq": 7}}]
        assert outgoing.signature(ours) == outgoing.signature("[CQ:reply,id=1]a b[CQ:at,qq=7,name=@x]")
        assert outgoing.signature(ours) != outgoing.signature([text("a b")])
