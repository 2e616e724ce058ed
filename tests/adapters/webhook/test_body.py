"""What a post becomes: the message that the schema asks for, whatever was posted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from adapters.webhook import body as bodies
from adapters.webhook.source import Source
from lumia.testing import Bot
from tests.support.gateway import WEBHOOK

ids = st.text(max_size=40) | st.integers() | st.sampled_from(["a" * 256, "-" * 60, "ä" * 60, "a:b-c%"])
texts = st.text(max_size=60) | st.sampled_from(["hi @Lumia", "@lumia", "nul \x00 here", "\ud800"])


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
