"""Replies are JSON-exact: what the ledger records gives back the same reply."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lumia.errors import ModelError
from lumia.models.reply import Reply, Usage, pack_vectors, schema_of, unpack_vectors, write_output


class Plan(BaseModel):
    goal: str
    due: datetime
    days: tuple[date, ...] = ()


PLAN = Plan(goal="tea", due=datetime(2026, 1, 2, tzinfo=UTC), days=(date(2026, 1, 1),))


@pytest.mark.parametrize("output,kind", [("hello", str), (PLAN, Plan), ([1, 2], list[int]), (True, bool)])
def test_a_reply_survives_json(output: Any, kind: Any) -> None:
    text = write_output(output, kind)
    reply = Reply(output, text, "openai:x", Usage(1, 2, 3), 0.5, False, 12.5, ("a: HTTP 500",))
    assert Reply.from_dict(json.loads(json.dumps(reply.as_dict())), kind) == reply


def test_a_recorded_answer_that_no_longer_fits_says_so() -> None:
    data = Reply(None, '{"goal": 1}', "m").as_dict()
    with pytest.raises(ModelError, match="doesn't fit Plan"):
        Reply.from_dict(data, Plan)


def test_the_schema_text_tells_output_types_apart() -> None:
    assert schema_of(str) == "text"
    assert schema_of(Plan) == schema_of(Plan) != schema_of(list[Plan])


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20), max_size=5))
def test_vectors_survive_packing_at_single_precision(vectors: list[list[float]]) -> None:
    assert unpack_vectors(pack_vectors(vectors)) == vectors
