"""The offline model fills any schema it can with values that fit, led by the chat and by field names."""

from __future__ import annotations

from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, Field, TypeAdapter, WithJsonSchema

from lumia.errors import ModelError
from lumia.models import Models

NOON = 1_764_072_000.0


def ask(output_type: Any, text: str = "hello", *, name: str | None = None, bot: str = "Lumia") -> Any:
    message = {"role": "user", "content": text, **({"name": name} if name else {})}
    return Models({}, {}, clock=lambda: NOON, bot_name=bot).chat("small", [message], output_type=output_type).output


class Mood(Enum):
    positive = "positive"
    negative = "negative"
    neutral = "neutral"


class Verdict(BaseModel):
    score: float = Field(ge=0, le=1)
    should_reply: bool
    mentions_bot: bool
    reason: str
    mood: Mood
    intent: Literal["question", "greeting", "statement"]
    keywords: list[str]
    language: str


def test_a_question_to_the_bot_scores_higher_than_small_talk() -> None:
    asked, told = ask(Verdict, "Lumia, what do you think about tea?"), ask(Verdict, "nice weather today")
    assert asked.score > 0.8 > 0.3 > told.score
    assert (asked.should_reply, told.should_reply) == (True, False)
    assert (asked.mentions_bot, told.mentions_bot) == (True, False)
    assert (asked.intent, told.intent) == ("question", "statement")
    assert "question" in asked.reason
    assert told.mood is Mood.positive
    assert asked.keywords == ["think", "tea"]


def test_the_bots_own_name_counts() -> None:
    assert ask(Verdict, "Mika is nice", bot="Mika").mentions_bot
    assert not ask(Verdict, "Mika is nice").mentions_bot


def test_chinese_is_judged_too() -> None:
    verdict = ask(Verdict, "你喜欢喝茶吗？")
    assert (verdict.language, verdict.intent, verdict.should_reply) == ("zh", "question", True)
    assert ask(Verdict, "我讨厌下雨").mood is Mood.negative


def test_a_score_uses_the_range_its_schema_allows() -> None:
    class Points(BaseModel):
        score: int = Field(ge=0, le=10)

    class Percent(BaseModel):
        score: int

    class Odd(BaseModel):
        score: float = Field(gt=2, lt=3)
        confidence: Annotated[float, Field(multiple_of=0.25)]

    text = "Lumia, can you help me?"
    assert ask(Points, text).score == 10
    assert ask(Percent, text).score == 100
    assert 2 < ask(Odd, text).score < 3
    assert ask(Odd, text).confidence == 0.5


def test_texts_come_from_the_chat() -> None:
    class Texts(BaseModel):
        reply: str
        summary: str
        goal: str
        topic: str
        who: str
        title: str = Field(max_length=3)
        participants: list[str]

    texts = ask(Texts, "who are you?", name="Ann")
    assert "offline model" in texts.reply
    assert "who are you?" in texts.summary
    assert (texts.goal, texts.who, texts.participants) == ("who are you?", "Ann", ["Ann"])


def test_an_option_the_message_names_is_taken() -> None:
    class Route(BaseModel):
        tool: Literal["browser", "memory", "answer"]

    assert ask(Route, "please look in your memory").tool == "memory"
    assert ask(Route, "hm").tool == "browser"


def test_defaults_stand_unless_the_name_is_understood() -> None:
    class Plan(BaseModel):
        deep: bool = True
        should_reply: bool = False
        note: str | None = None

    assert ask(Plan, "Lumia?") == Plan(deep=True, should_reply=True, note=None)


def test_odd_schemas_are_followed_too() -> None:
    class Odd(BaseModel):
        marks: Annotated[set[str], Field(min_length=2)]
        merged: Annotated[int, WithJsonSchema({"allOf": [{"type": "integer"}]})]
        several: Annotated[int | None, WithJsonSchema({"type": ["null", "integer"]})]

    odd = ask(Odd)
    assert len(odd.marks) == 2
    assert (odd.merged, odd.several) == (0, 0)


class Tree(BaseModel):
    label: str
    left: Tree | None
    children: list[Tree]


class Step(BaseModel):
    number: int = Field(gt=2, lt=9)
    when: datetime
    day: date
    link: AnyUrl
    ids: set[int] = Field(min_length=3)
    names: list[str] = Field(min_length=7)
    pair: tuple[int, str]
    table: dict[str, int]
    flags: Annotated[list[bool], Field(min_length=1)]
    even: int = Field(multiple_of=4, ge=5)
    code: str = Field(min_length=5, max_length=6)
    fixed: Literal["x"]
    either: int | str
    extra: Any
    negative: float = Field(le=-2)


def test_any_usual_schema_is_filled_with_fitting_values() -> None:
    step = ask(Step)
    assert (step.number, step.even, step.negative) == (3, 8, -2)
    assert step.when.timestamp() == NOON
    assert len(step.ids) == 3


def test_recursive_types_end() -> None:
    tree = ask(Tree)
    assert tree.children == []
    assert tree.left is not None


@pytest.mark.parametrize("kind", [bool, int, float, list[str], dict[str, int], Literal["a", "b"], Mood, Verdict | None])
def test_types_that_are_no_models_are_filled_too(kind: Any) -> None:
    value = ask(kind)
    assert TypeAdapter(kind).validate_python(value, strict=True) == value


def test_what_rules_cannot_make_is_explained() -> None:
    class Coded(BaseModel):
        code: str = Field(pattern=r"^[A-Z]{3}-\d{4}$")

    class Endless(BaseModel):
        inner: Endless

    with pytest.raises(ModelError, match=r"offline model can't make a value of Coded: .*code.*real model"):
        ask(Coded)
    with pytest.raises(ModelError, match="Endless"):
        ask(Endless)


def test_too_few_words_for_a_list_fall_back_to_plain_ones() -> None:
    class Tags(BaseModel):
        tags: list[str] = Field(min_length=3)

    assert ask(Tags, "tea") == Tags(tags=["", "", ""])


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=80))
def test_no_message_breaks_a_verdict_and_the_same_one_gets_the_same(text: str) -> None:
    verdict = ask(Verdict, text)
    assert 0 <= verdict.score <= 1
    assert ask(Verdict, text) == verdict
