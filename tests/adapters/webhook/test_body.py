"""What a post becomes: the message that the schema asks for, whatever was posted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lumia
from adapters.webhook import body as bodies
from adapters.webhook.source import Source
from lumia.testing import Bot
from tests.support.gateway import WEBHOOK

ids = st.text(max_size=40) | st.integers() | st.sampled_from(["a" * 256, "-" * 60, "ä" * 60, "a:b-c%"])
texts = st.text(max_size=60) | st.sampled_from(["hi @Lumia", "@lumia", "nul \x00 here", "\ud800"])
literals = st.sampled_from([
    "NaN", "Infinity", "-Infinity", "-0", "-0.0", "1e2", "1e400", "01", "true", "null", "9" * 300, "9" * 4301,
    '"\\ud800"', '"\\ud83d\\ude00"', '"\\ude00\\ud83d"', '"\\u0000"', '"\\x"', '"\t"', '"\x7f"', "[" * 150 + "]" * 150,
    "[" * 100_000, '[{"url": "https://e.com/a"}]', '[{"data": "", "size": NaN, "kind": "image"}]',
])  # fmt: skip
values = literals | (texts | st.integers() | st.floats()).map(json.dumps) | texts.map(lambda text: f'"{text}"')
names = st.sampled_from(["text", "sender_id", "group_id", "message_id", "callback_url", "media", "other", "\\u0074ext"])
spaces = st.sampled_from(["", "", "", " ", "\n", "\x0b", "\xa0", "\ufeff", "\x00"])


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Draw what is nearly the JSON of a body, with keys that come twice among it."""
    pairs = draw(st.lists(st.tuples(names, values), max_size=3))
    right = draw(st.permutations([("text", '"hi"'), ("sender_id", '"ann"'), *pairs])) if draw(st.booleans()) else pairs
    text = draw(spaces) + "{" + ",".join(f'"{name}":{value}' for name, value in right) + "}" + draw(spaces)
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@pytest.fixture(scope="module", autouse=True)
def bot() -> Iterator[Bot]:
    with Bot(WEBHOOK) as found:
        yield found


@given(st.fixed_dictionaries({"text": texts, "sender_id": ids}, optional={"group_id": ids, "message_id": ids}))
def test_what_is_made_of_a_checked_body_is_what_the_schema_makes_of_it(posted: dict[str, Any]) -> None:
    source = Source("shop-1.x", token="t")
    try:
        body = bodies.read(json.dumps(posted).encode(), source)
        made = bodies.compose(source, body, body.message_id or lumia.system.new_id(), [])
    except lumia.errors.PayloadError:
        return
    checked = lumia.payloads.validate("msg", made)
    assert made == checked and list(made) == list(checked)


def outcome(data: bytes) -> str:
    try:
        return repr(bodies.read(data, Source("shop", token="t")))
    except lumia.errors.PayloadError as error:
        return f"refused: {error}"


def unread(data: bytes, **options: Any) -> Any:
    raise ValueError


@settings(max_examples=500)
@given(documents())
@example(b'{"text":"hi","sender_id":NaN,"sender_id":"ann"}')
@example(b'{"text":"hi","sender_id":%s,"sender_id":"ann"}' % (b"9" * 5000))
@example(b'{"text":"hi","sender_id":"\\ud800","sender_id":"ann"}')
@example(b'{"text":"\\ud800","sender_id":"ann"}')
@example(b"")
def test_the_quick_parser_takes_what_the_careful_one_takes_and_makes_the_same_of_it(data: bytes) -> None:
    quick = outcome(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "from_json", unread)
        assert quick == outcome(data)
