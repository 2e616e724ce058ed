"""Message elements: read as the protocol says, written so that others read the same; nonebot-adapter-satori agrees."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nonebot.adapters.satori.element import Element as TheirElement
from nonebot.adapters.satori.element import parse as their_parse

from adapters.satori import markup, outgoing, segments
from adapters.satori.markup import Element
from tests.peers.satori import readable

NAMES = st.sampled_from(
    ["at", "b", "i", "a", "img", "file", "quote", "sharp", "emoji", "p", "message", "x-y", "qq:json"]
)
PLAIN = st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from("<>&\"' ")
TEXT = st.text(PLAIN | st.sampled_from('<>&"/=\n ;'), min_size=1, max_size=12)
WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
KEYS = st.sampled_from(["id", "name", "type", "src", "title", "href", "width", "forward", "role"])
ATTRIBUTES = st.dictionaries(KEYS, TEXT | st.just(True), max_size=3)
TREES: st.SearchStrategy[list[Any]] = st.recursive(
    st.lists(TEXT, max_size=2),
    lambda inner: st.lists(TEXT | st.builds(Element, NAMES, ATTRIBUTES, inner), max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "content, nodes",
    [
        ("a &lt;b&gt; &amp;amp; &#39;&#x27;", ["a <b> &amp; ''"]),
        ('<at id="1" name=\'A "B"\'/>', [Element("at", {"id": "1", "name": 'A "B"'})]),
        ("<message forward><message id='2'/></message>",
         [Element("message", {"forward": True}, [Element("message", {"id": "2"})])]),
        ("<tag>\n  <foo> bar\n  <!-- <b> -->\n</tag>", [Element("tag", {}, ["<foo> bar"])]),
        ("one</b> two <b>three", ["one</b> two <b>three"]),
        ("<b>x<i>y</b>z</i>", [Element("b", {}, ["x<i>y"]), "z</i>"]),
        ("1 < 2 > 0 <3 <-- <!-- open", ["1 < 2 > 0 <3 <-- <!-- open"]),
        (" a <br/> b\n", [" a ", Element("br"), " b"]),
        ("&#0; &#xD800; &#99999999; &bogus;", ["&#0; &#xD800; &#99999999; &bogus;"]),
    ],
)  # fmt: skip
def test_contents_are_read_as_the_protocol_says(content: str, nodes: list[Any]) -> None:
    assert markup.parse(content) == nodes


@given(TREES)
def test_what_is_written_is_read_again(nodes: list[Any]) -> None:
    once = markup.parse(markup.render(nodes))
    assert markup.parse(markup.render(once)) == once


@given(TREES)
def test_segments_come_back_as_they_went(nodes: list[Any]) -> None:
    found = segments.read(markup.render(nodes))
    again = segments.read(segments.join((segments.path_of(one), written(one, found)) for one in found.segments))
    assert (again.segments, again.media) == (found.segments, found.media)
    assert segments.text_of(found.segments) == segments.text_of(again.segments)


def written(segment: dict[str, Any], found: segments.Reading) -> str:
    item = found.media[segment["data"]["media"]] if "media" in segment["data"] else {}
    named = {**segment, "data": {**segment["data"], "name": item.get("name")}} if item else segment
    return segments.write(named, item.get("source", ""))


@given(
    st.lists(st.sampled_from([*"<>/=\"'&#;! \nx1-", "<!--", "-->", "<at ", "id=", "<b>", "</b>", "<br/>"])).map("".join)
)
def test_any_content_is_read_without_an_error(content: str) -> None:
    segments.text_of(segments.read(content).segments)


@given(st.text(PLAIN | st.just("\n"), max_size=40))
def test_a_text_is_the_same_for_whoever_reads_it(text: str) -> None:
    content = segments.write({"type": "text", "data": {"text": text}})
    assert segments.text_of(segments.read(content).segments) == text
    assert readable(content) == text
    assert theirs(their_parse(content)) == mine(markup.parse(content))


@given(
    st.lists(st.builds(Element, NAMES, st.dictionaries(KEYS, WORDS, max_size=2), st.lists(WORDS, max_size=1)) | WORDS)
)
def test_nonebot_reads_what_we_write(nodes: list[Any]) -> None:
    content = markup.render(nodes)
    assert theirs(their_parse(content)) == mine(markup.parse(content))


def theirs(found: list[TheirElement]) -> list[Any]:
    return _joined([one.attrs["text"] if one.type == "text" else (one.type, one.attrs, theirs(one.children))
                    for one in found])  # fmt: skip


def mine(nodes: list[Element | str]) -> list[Any]:
    return _joined([one if isinstance(one, str) else (one.name, one.attributes, mine(one.children)) for one in nodes])


def _joined(nodes: list[Any]) -> list[Any]:
    made: list[Any] = []
    for node in nodes:
        if isinstance(node, str) and made and isinstance(made[-1], str):
            made[-1] += node
        else:
            made.append(node)
    return made


def test_what_decorates_a_text_goes_with_it() -> None:
    found = segments.read(
        '<p>Hi <b>dear <at id="7" name="Ada"/></b></p><p>you</p><a href="https://x.example/">here</a> <br/>bye'
    )
    assert [(one["type"], [step[0] for step in segments.path_of(one)]) for one in found.segments] == [
        ("text", ["p"]), ("text", ["p", "b"]), ("mention", ["p", "b"]), ("text", ["p"]), ("text", ["a"]), ("text", []),
    ]  # fmt: skip
    assert segments.text_of(found.segments) == "Hi dear @Ada\nyou\nhere (https://x.example/) \nbye"


def test_elements_of_a_platform_are_read_by_their_content() -> None:
    found = segments.read(
        '<message forward><message>one</message></message><sharp id="3" name="news"/><button id="b"/>'
    )
    assert [one["type"] for one in found.segments] == ["satori.message", "satori.sharp", "satori.button"]
    assert segments.text_of(found.segments) == "one#news [button]"


def test_long_texts_are_split_and_only_the_first_message_quotes() -> None:
    parts = [
        {"type": "text", "data": {"text": "word " * 50, "in": [["b", {}]]}},
        {"type": "mention", "data": {"id": "7"}},
    ]
    made = outgoing.drafts(parts, "m1", 100)
    contents = [outgoing.content(draft, {}) for draft in made]
    assert len(contents) == 3 and all(draft.length <= 100 for draft in made)
    assert contents[0].startswith('<quote id="m1"/><b>word') and "quote" not in contents[1]
    assert contents[-1].endswith('</b><at id="7"/>')


@pytest.mark.parametrize("unit", ["<!--", "<a ", '<a x="', "<b>", "</b>", "&#", "<a b=' ", "\n"])
def test_no_content_takes_long_to_read(unit: str) -> None:
    begun = time.process_time()
    segments.text_of(segments.read("--> " + unit * (200_000 // len(unit)) + "end").segments)
    assert time.process_time() - begun < 3
