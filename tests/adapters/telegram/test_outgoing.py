"""What is sent: Markdown as entities, long texts in parts, segments there and back, files by their kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from adapters.telegram import markdown, outgoing, segments
from adapters.telegram.rich import Rich, split
from adapters.telegram.segments import Me
from adapters.telegram.utf16 import Units

ME = Me("42", "lumia_bot", "Lumia")
units = lumia.adapters.utf16


def said(rich: Rich) -> list[tuple[str, str]]:
    whole = Units(rich.text)
    return [(one["type"], whole.cut(one["offset"], one["offset"] + one["length"])) for one in rich.entities]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "data": {"text": value, **more}}


@pytest.mark.parametrize(
    "source, shown, entities",
    [
        ("**bold** and *it* `code`", "bold and it code", [("bold", "bold"), ("italic", "it"), ("code", "code")]),
        ("__b old__ _it_ ~~no~~", "b old it no", [("bold", "b old"), ("italic", "it"), ("strikethrough", "no")]),
        ("__init__ of x", "__init__ of x", []),
        ("***both***", "both", [("bold", "both"), ("italic", "both")]),
        ("# Title\nbody", "Title\nbody", [("bold", "Title")]),
        ("a\n\n```python\nx = **1**\n```\nb", "a\n\nx = **1**\nb", [("pre", "x = **1**")]),
        ("```\ncut short", "cut short", [("pre", "cut short")]),
        ("> one\n> *two*\nrest", "one\ntwo\nrest", [("blockquote", "one\ntwo"), ("italic", "two")]),
        ("[a **b**](https://x.org/y_(z))!", "a b!", [("text_link", "a b"), ("bold", "b")]),
        ("``a`b``", "a`b", [("code", "a`b")]),
        ("😀 **𝒳y** 汉**字**汉", "😀 𝒳y 汉字汉", [("bold", "𝒳y"), ("bold", "字")]),
        (r"\*no\* 2*3*4 snake_case_name **open", "*no* 2*3*4 snake_case_name **open", []),
        ("* item\n- item\n1. item", "* item\n- item\n1. item", []),
        ("[x](javascript:alert(1)) [y]", "[x](javascript:alert(1)) [y]", []),
        ("***** ____ ~~~~~ ", "***** ____ ~~~~~ ", []),
    ],
)
def test_markdown_is_shown_as_it_was_meant(source: str, shown: str, entities: list[tuple[str, str]]) -> None:
    rich = markdown.render(source)
    assert (rich.text, said(rich)) == (shown, entities)


def test_a_code_block_keeps_its_language() -> None:
    (entity,) = markdown.render("```c++\nint x;\n```").entities
    assert entity == {"type": "pre", "offset": 0, "length": 6, "language": "c++"}


MARKED = st.text(st.sampled_from("ab *_`~[]()>#\\\n😀汉!:/htps"), max_size=60)


@given(MARKED)
def test_no_text_fails_and_every_entity_is_within_it_and_nested(source: str) -> None:
    rich = markdown.render(source)
    assert units(rich.text) <= units(source)
    spans = [(one["offset"], one["offset"] + one["length"]) for one in rich.entities]
    assert all(0 <= start < end <= units(rich.text) for start, end in spans)
    for start, end in spans:
        for other, last in spans:
            assert not start < other < end < last, "entities cross"


@given(st.text(st.sampled_from("ab 😀汉\n.`~"), min_size=1, max_size=400),
       st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300)), max_size=4))  # fmt: skip
def test_parts_fit_and_their_entities_cover_the_same_text(whole: str, spans: list[tuple[int, int]]) -> None:
    size = units(whole)
    entities: tuple[dict[str, Any], ...] = tuple(
        {"type": "bold", "offset": start, "length": min(length, size - start)}
        for start, length in spans
        if start < size
    )
    found = split(Rich(whole, entities), 64)
    at = 0
    for part in found:
        assert units(part.text) <= 64
        at = whole.index(part.text, at)
        start = units(whole[:at])
        for one in part.entities:
            assert 0 <= one["offset"] < one["offset"] + one["length"] <= units(part.text)
            assert any(
                before["offset"] <= start + one["offset"]
                and start + one["offset"] + one["length"] <= before["offset"] + before["length"]
                for before in entities
            )
        at += len(part.text)
    assert "".join("".join(part.text.split()) for part in found) == "".join(whole.split())


STYLES = st.sampled_from(["bold", "italic", "code", "spoiler", "pre", "text_link", "bot_command", "hashtag"])
PIECE = st.text(st.sampled_from("ab 😀𝒳\n汉*_`"), min_size=1, max_size=8)


@st.composite
def message(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """A text as Telegram sends it: pieces, some of them mentions or custom emoji, and a style over each or none."""
    whole, entities = "", []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "mention", "bot", "text_mention", "custom_emoji"]))
        piece = {"mention": "@ann_lee", "bot": "@Lumia_Bot", "custom_emoji": "👍"}.get(kind) or draw(PIECE)
        place = {"offset": units(whole), "length": units(piece)}
        if kind in ("mention", "bot"):
            entities.append({"type": "mention", **place})
        elif kind == "text_mention":
            user = {"id": 7, "is_bot": False, "first_name": piece}
            entities.append({"type": "text_mention", **place, "user": user})
        elif kind == "custom_emoji":
            entities.append({"type": "custom_emoji", **place, "custom_emoji_id": "5368"})
        elif draw(st.booleans()):
            style = draw(STYLES)
            more = {"url": "https://x.org/"} if style == "text_link" else {}
            entities.append({"type": style, **place, **more})
        whole += piece
    if whole and draw(st.booleans()):
        entities.append({"type": "underline", "offset": 0, "length": units(whole)})
    return whole, entities


@given(message())
def test_what_telegram_sent_comes_back_as_it_was(given: tuple[str, list[dict[str, Any]]]) -> None:
    whole, entities = given
    rich = outgoing.text_of(segments.read(whole, entities, ME), marked=False)
    assert rich.text == whole
    assert _covered(rich.entities) == _covered(entities)


def _covered(entities: Any) -> set[tuple[Any, ...]]:
    """Return which unit has which style: entities that touch may be one or two."""
    return {
        (place, one["type"], one.get("url"), one.get("custom_emoji_id"), (one.get("user") or {}).get("id"))
        for one in entities
        for place in range(one["offset"], one["offset"] + one["length"])
    }


def test_a_mention_by_id_names_who_has_no_username() -> None:
    found = outgoing.text_of([text("hi "), {"type": "mention", "data": {"id": "7", "name": "美"}}, text("!")])
    assert (found.text, found.entities[0]["user"]["id"]) == ("hi 美!", 7)
    assert outgoing.text_of([{"type": "mention", "data": {"id": "@ann", "name": "Ann"}}]).text == "@ann"


def test_texts_with_entities_of_their_own_are_no_markdown() -> None:
    assert outgoing.text_of([text("**a**", entities=[])]).text == "**a**"
    assert outgoing.text_of([text("**a**")], marked=False).text == "**a**"


def test_a_long_reply_is_split_and_only_its_first_part_quotes() -> None:
    found = list(outgoing.addressed(outgoing.posts([text("😀" * 3000)]), "-100", "40", "7", preview=False))
    assert [units(post.params["text"]) for post in found] == [4096, 1904]
    assert found[0].params["reply_parameters"] == {"message_id": 7, "allow_sending_without_reply": True}
    assert "reply_parameters" not in found[1].params
    assert all(post.params["message_thread_id"] == 40 and post.params["chat_id"] == -100 for post in found)
    assert found[0].params["link_preview_options"] == {"is_disabled": True}


@pytest.mark.parametrize("thread, reply", [("", ""), ("1", "x"), ("abc", "ephemeral-5"), ("²", "²")])
def test_general_and_what_is_no_number_is_not_sent_along(thread: str, reply: str) -> None:
    (post,) = outgoing.addressed(outgoing.posts([text("hi")]), "@news", thread, reply)
    assert post.params == {"chat_id": "@news", "text": "hi"}


def file(kind: str, media_type: str, size: int = 10) -> dict[str, Any]:
    return {"type": kind, "data": {"blob": {"digest": "d", "size": size, "media_type": media_type}, "name": "n"}}


@pytest.mark.parametrize(
    "segment, method, field",
    [
        (file("image", "image/png"), "sendPhoto", "photo"),
        (file("image", "image/png", 11 * 1024 * 1024), "sendDocument", "document"),
        (file("image", "image/svg+xml"), "sendDocument", "document"),
        (file("image", "image/gif"), "sendAnimation", "animation"),
        (file("audio", "audio/ogg; codecs=opus"), "sendVoice", "voice"),
        (file("audio", "audio/mpeg"), "sendAudio", "audio"),
        (file("audio", "audio/wav"), "sendDocument", "document"),
        (file("video", "video/mp4"), "sendVideo", "video"),
        (file("file", "application/pdf"), "sendDocument", "document"),
    ],
)
def test_a_file_goes_as_what_telegram_shows_it_as(segment: dict[str, Any], method: str, field: str) -> None:
    (post,) = outgoing.posts([segment])
    assert post.file is not None and (post.method, post.file["field"]) == (method, field)


def test_a_short_text_is_the_files_caption_and_a_long_one_its_own_message() -> None:
    (only,) = outgoing.posts([text("**see**"), file("image", "image/png")])
    assert (only.params["caption"], only.params["caption_entities"][0]["type"]) == ("see", "bold")
    first, second = outgoing.posts([text("x" * 1025), {"type": "image", "data": {"ref": "AgAC"}}])
    assert (first.method, second.params) == ("sendMessage", {"photo": "AgAC"})


def test_what_telegram_knows_itself_is_sent_again_as_such() -> None:
    venue = {"title": "T", "address": "A", "location": {"latitude": 1.0, "longitude": 2.0}}
    found = outgoing.posts([
        {"type": "telegram.sticker", "data": {"file_id": "CAA", "emoji": "x"}},
        {"type": "telegram.venue", "data": venue},
        {"type": "telegram.poll", "data": {"question": "Q", "options": [{"text": "a", "voter_count": 3}], "id": "5"}},
        {"type": "telegram.forward_origin", "data": {}},
    ])  # fmt: skip
    assert [post.method for post in found] == ["sendSticker", "sendVenue", "sendPoll"]
    assert found[1].params == {"title": "T", "address": "A", "latitude": 1.0, "longitude": 2.0}
    assert found[2].params == {"question": "Q", "options": [{"text": "a"}]}


@pytest.mark.parametrize("segments", [[text("  \n")], [{"type": "reply", "data": {"id": "5"}}],
                                      [{"type": "image", "data": {"name": "x"}}]])  # fmt: skip
def test_what_shows_nothing_is_refused(segments: list[dict[str, Any]]) -> None:
    with pytest.raises(lumia.errors.PayloadError):
        outgoing.posts(segments)
