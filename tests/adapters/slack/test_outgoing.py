"""A send as messages: what is said, where it is cut, which thread it goes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import outgoing
from adapters.slack.outgoing import LIMIT, File, Text, compose, only_text, quoted, thread_of
from lumia.errors import RejectedError

BLOB = {"digest": "d" * 64, "size": 3, "media_type": "image/png"}
REPLY, ROOT = "1718000000.000002", "1718000000.000001"

WORDS = st.sampled_from(
    ["word ", "&&& ", "a<b> ", "**x** ", "中文。", "\n\n", "`c` ", "|a|b|\n|-|-|\n", "@", "\U00100001"]
)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": said}}


def said(*segments: dict[str, Any], markdown: bool = True) -> list[str]:
    pieces = compose(segments, markdown=markdown)
    assert all(isinstance(piece, Text) for piece in pieces)
    return [piece.text for piece in pieces if isinstance(piece, Text)]


def test_text_is_markdown_and_people_are_named_by_their_id() -> None:
    mention = {"type": "mention", "data": {"id": "U0ANN00001", "name": "Ann"}}
    assert said(text("**Hi** "), mention, text(", look <here>")) == ["*Hi* <@U0ANN00001>, look &lt;here&gt;"]


def test_text_may_be_sent_as_it_stands() -> None:
    assert said(text("**a** <b>"), markdown=False) == ["**a** &lt;b&gt;"]


def test_what_came_from_slack_can_go_back() -> None:
    segments = [
        text("see "),
        {"type": "slack.channel", "data": {"id": "C1", "label": "general"}},
        text(" and "),
        {"type": "slack.link", "data": {"url": "https://a.b/?c=1&d=2", "label": "docs"}},
        text(" "),
        {"type": "mention_all", "data": {"range": "here"}},
        {"type": "emoji", "data": {"id": "1f44b", "name": "wave"}},
    ]
    assert said(*segments) == ["see <#C1> and <https://a.b/?c=1&amp;d=2|docs> <!here>:wave:"]


def test_files_of_the_blob_store_stand_between_the_texts() -> None:
    image = {"type": "image", "data": {"blob": BLOB, "name": "cat.png"}}
    assert compose([text("before"), image, text("after")]) == [
        Text("before"),
        File(1, image),
        Text("after"),
    ]
    far = {"type": "image", "data": {"url": "https://a.b/c.png"}}
    assert compose([far]) == [File(0, far)]


def test_a_file_at_an_open_address_is_a_link() -> None:
    assert said({"type": "image", "data": {"url": "http://a.b/c.png", "name": "c"}}) == ["<http://a.b/c.png|c>"]
    assert said({"type": "file", "data": {"url": "http://a.b/c"}}) == ["<http://a.b/c>"]


def test_what_has_no_form_here_is_left_out() -> None:
    other = {"type": "onebot.json", "data": {"data": "{}"}}
    assert said(text("hi"), other, {"type": "image", "data": {"media": 0}}) == ["hi"]
    assert compose([other]) == []


def test_a_reply_segment_names_what_is_answered() -> None:
    assert quoted([{"type": "reply", "data": {"id": ROOT}}, text("x")]) == ROOT
    assert quoted([text("x")]) is None


def test_a_code_block_that_is_cut_is_closed_and_opened_again() -> None:
    parts = said(text("```python\n" + "x = 1 < 2\n" * 600 + "```"))
    assert len(parts) > 1
    assert all(part.startswith("```\n") and part.rstrip().endswith("```") and len(part) <= LIMIT for part in parts)


@settings(max_examples=30, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=40), st.integers(1, 60))
def test_no_message_is_too_long_and_no_mention_is_cut(words: list[str], times: int) -> None:
    segments: list[dict[str, Any]] = []
    for number in range(times):
        segments += [text("".join(words) * 3), {"type": "mention", "data": {"id": f"U{number}"}}]
    parts = said(*segments)
    assert all(len(part) <= LIMIT for part in parts)
    assert "".join(parts).count("<@U") == times


@pytest.mark.parametrize(
    "thread, reply_to, how, wanted",
    [
        (None, ROOT, "auto", None),
        (ROOT, REPLY, "auto", ROOT),
        (None, ROOT, "always", ROOT),
        (ROOT, REPLY, "always", ROOT),
        (ROOT, REPLY, "never", None),
        (None, None, "always", None),
        (None, "command-0123456789abcdef", "always", None),
        ("t1", ROOT, "auto", None),
    ],
)
def test_the_thread_is_never_a_replys_own_ts(
    thread: str | None, reply_to: str | None, how: str, wanted: str | None
) -> None:
    assert thread_of(thread, reply_to, how) == wanted


def test_an_edit_is_one_text() -> None:
    assert only_text(compose([text("hi")])) == "hi"
    for segments in ([], [text("x " * LIMIT)], [{"type": "image", "data": {"blob": BLOB}}]):
        with pytest.raises(RejectedError, match="4000 characters"):
            only_text(compose(segments))


def test_the_limit_is_slacks() -> None:
    assert outgoing.LIMIT == 4000
