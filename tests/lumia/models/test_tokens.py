"""Estimated tokens: deterministic, in proportion to the text, and in the usage of every offline answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from lumia.models import Models, Usage, tokens
from lumia.models.messages import Message, Request

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


class Verdict(BaseModel):
    """How it is."""

    score: float


@pytest.mark.parametrize(
    "text,count",
    [
        ("", 0),
        ("a", 1),
        ("hello world!", 3),
        ("今天天气", 3),
        ("今天天气不错啊", 5),
        ("ok 今天天气", 3),
        ("한국어한국어", 4),
    ],
)
def test_an_alphabet_takes_four_characters_a_token_and_chinese_one_and_a_half(text: str, count: int) -> None:
    assert tokens.estimate(text) == count


@given(anything, anything)
def test_two_texts_cost_what_they_cost_alone(one: str, other: str) -> None:
    assert abs(tokens.estimate(one + other) - tokens.estimate(one) - tokens.estimate(other)) <= 2
    assert tokens.estimate(one) <= len(one)


def test_a_prompt_is_its_system_text_its_lines_with_their_names_and_its_schema() -> None:
    lines = (Message("user", "a" * 40, "Ann"), Message("assistant", "b" * 40))
    plain = tokens.of_request(Request("main", lines, "s" * 400))
    assert plain == 100 + round(45 / 4) + 10
    typed = tokens.of_request(Request("main", lines, "s" * 400, Verdict))
    assert typed == plain + tokens.of_schema(Verdict)
    assert 20 < tokens.of_schema(Verdict) < 40


def test_titles_that_no_provider_is_sent_cost_nothing() -> None:
    class Untitled(BaseModel):
        title: str

    assert tokens.of_schema(Untitled) == tokens.estimate(
        '{"properties":{"title":{"type":"string"}},"required":["title"],"type":"object"}'
    )
    assert tokens.of_schema(list[int]) == tokens.estimate('{"items":{"type":"integer"},"type":"array"}')


def test_every_offline_answer_reports_what_it_would_have_cost() -> None:
    hello = [{"role": "user", "content": "hello"}]
    text, typed = Models({}, {}).chat("main", hello), Models({}, {}).chat("small", hello, output_type=Verdict)
    assert text.usage == Usage(tokens.estimate("hello"), tokens.estimate(text.text), 1)
    assert typed.usage.input_tokens == text.usage.input_tokens + tokens.of_schema(Verdict)
    assert typed.usage.output_tokens == tokens.estimate(typed.text)
    assert (text.cost, typed.cost) == (0.0, 0.0)


def test_a_megabyte_is_counted_in_a_moment() -> None:
    began = time.perf_counter()
    assert tokens.estimate("汉 word " * 150_000) > 200_000
    assert time.perf_counter() - began < 3
