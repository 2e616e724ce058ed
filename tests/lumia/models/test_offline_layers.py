"""The offline model in every role of the chain: plans, thinks, words and sums up, so the chain can be seen without a key."""
# ruff: noqa: E501  (a tool's line is one line)

from __future__ import annotations

import json
import time
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from lumia.models import Models

NOON = 1_764_072_000.0
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=150)


class Route(BaseModel):
    """As heartflow's planner is asked."""

    route: Literal["ready", "external", "reason"]
    server: str = ""
    tool: str = ""
    input: dict[str, Any] = {}
    question: str = ""


class Bias(BaseModel):
    intent: str = ""
    emotion: str = ""
    key_points: list[str] = []


class Memory(BaseModel):
    action: Literal["upsert", "forget"] = "upsert"
    topic: str
    content: str = ""
    importance: float = Field(0.5, ge=0, le=1)


class Thought(BaseModel):
    """As heartflow's main model is asked."""

    reply_bias: Bias | None = None
    memory_updates: list[Memory] = []
    attention_shift: list[float] = []
    focus: str = ""


class Digest(BaseModel):
    summary: str = Field(max_length=4000)


PLAN = """You plan for Lumia. Choose a route:
ready: nothing more is needed
external: one of the tools knows what is asked; give server, tool and input
reason: it takes careful thinking; give the question
Tools:
- web.web_search: Search the web for current information. {"type":"object","properties":{"query":{"type":"string"},"count":{"type":"integer","minimum":1}},"required":["query","count"]}
- met.forecast: Weather forecast of a place {"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["c","f"]}},"required":["city","unit"]}
- b.browser: Open a web page {"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}"""


def ask(role: str, output_type: Any, *lines: str, system: str = "") -> Any:
    """The output for the last of `lines`: `Ann| text` is said by Ann, `system| …` injected."""
    messages = [_message(line) for line in lines]
    bot = Models({}, {}, clock=lambda: NOON)
    return bot.chat(role, messages, system=system, output_type=output_type).output


def _message(line: str) -> dict[str, Any]:
    name, bar, text = line.partition("| ")
    if not bar:
        return {"role": "user", "content": line}
    if name in ("bot", "system"):
        return {"role": {"bot": "assistant"}.get(name, name), "content": text}
    return {"role": "user", "content": text, "name": name}


# --- planning


@pytest.mark.parametrize(
    "text,server,tool,given",
    [
        ("Ann| Lumia what is the weather in New York tomorrow?", "met", "forecast", {"city": "New York", "unit": "c"}),
        ("小明| 小露 北京今天天气怎么样", "met", "forecast", {"city": "北京", "unit": "c"}),
        ("Ann| what's the latest python?", "web", "web_search", {"query": "what's the latest python?", "count": 1}),
        ("小明| 帮我搜一下最新的显卡价格", "web", "web_search", {"query": "帮我搜一下最新的显卡价格", "count": 1}),
        ("Ann| summarise https://x.example/a please", "b", "browser", {"url": "https://x.example/a"}),
    ],
)
def test_a_listed_tool_that_fits_is_asked_with_its_input(text: str, server: str, tool: str, given: Any) -> None:
    assert ask("planner", Route, text, system=PLAN) == Route(route="external", server=server, tool=tool, input=given)


@pytest.mark.parametrize(
    "text", ["why is the sky blue?", "hello", "I searched the whole house", "你好", "who are you?", ""]
)
def test_what_no_tool_is_for_is_ready(text: str) -> None:
    assert ask("planner", Route, text, system=PLAN) == Route(route="ready")


def test_without_tools_or_with_a_result_it_is_ready() -> None:
    text = "what's the latest python?"
    assert ask("planner", Route, text, system="Choose a route.").route == "ready"
    assert ask("planner", Route, 'system| [TOOL RESULTS]\n{"result":{}}', text, system=PLAN).route == "ready"


def test_a_hard_question_takes_reasoning_where_that_way_is_open() -> None:
    text = "prove step by step that the root of 2 is irrational?"
    assert ask("planner", Route, text, system=PLAN) == Route(route="reason", question=text)
    assert ask("planner", Route, text, system="ready: nothing").route == "ready"
    assert ask("planner", Route, "请分析一下这两种方案的利弊？", system=PLAN).route == "reason"


@pytest.mark.parametrize(
    "line",
    ["- a.b: {", "- a.search: search {]", '- a.search: search {"properties": 7}', "- a.search: search [1]", '- a.search: search {"properties":{"x":{"$ref":"#/nowhere"}},"required":["x"]}'],
)  # fmt: skip
def test_a_tool_that_is_listed_badly_breaks_nothing(line: str) -> None:
    assert ask("planner", Route, "please search the news", system=line).route in ("ready", "external")


# --- thinking


def test_the_key_point_is_the_offline_answer_and_facts_become_memories() -> None:
    thought = ask("main", Thought, "Ann| I live in Rome and I like tea")
    assert thought.reply_bias == Bias(
        intent="statement", emotion="neutral", key_points=["Noted: you live in Rome. You like tea."]
    )
    assert [(one.topic, one.content) for one in thought.memory_updates] == [
        ("Ann", "Ann lives in Rome."),
        ("Ann", "Ann likes tea."),
    ]
    assert thought.focus == "live Rome like tea"
    assert thought.attention_shift == []


def test_a_question_is_answered_and_remembers_nothing() -> None:
    thought = ask("main", Thought, "Ann| I like tea", "Ann| what do I like?")
    assert thought.reply_bias and thought.reply_bias.key_points == ["You like tea."]
    assert thought.memory_updates == []


def test_what_is_to_be_remembered_is() -> None:
    (kept,) = ask("main", Thought, "小明| 请记住：周五交报告").memory_updates
    assert (kept.content, kept.importance) == ("周五交报告", 0.8)


@pytest.mark.parametrize(
    "told,question,answer",
    [
        ('[TOOL RESULTS]\n{"server":"web","result":{"results":[{"title":"Python 3.14","text":"out in October"}]}}', "what's the latest python?", "Python 3.14 out in October"),
        ('[TOOL RESULTS]\nnot JSON\n{"result":{"summary":"It cannot be."}}', "can that be?", "It cannot be."),
        ('[HINT]\n- "Ann meets Bob on Friday"', "when does Ann meet Bob?", "I was told: “Ann meets Bob on Friday”"),
        ("[EARLIER]\nIn brief.\nthe key is under the mat.", "where is the key?", "I was told: “the key is under the mat.”"),
    ],
)  # fmt: skip
def test_what_the_chain_found_out_is_used(told: str, question: str, answer: str) -> None:
    thought = ask("main", Thought, f"system| {told}", f"Ann| {question}")
    assert thought.reply_bias and thought.reply_bias.key_points == [answer]


def test_a_tools_error_and_the_heading_of_a_block_answer_nothing() -> None:
    told = 'system| [TOOL RESULTS]\n{"result":{"error":"no such city tea"}}'
    thought = ask("main", Thought, told, "system| [HINT]\n- not JSON about tea", "Ann| what is tea?")
    assert thought.reply_bias and thought.reply_bias.key_points[0].startswith("I don't know that")


# --- wording


def polished(*lines: str) -> str:
    return str(ask("polish", str, *lines))


def test_polish_says_the_key_points_of_the_newest_bias() -> None:
    old, new = (
        json.dumps({"key_points": ["old"]}),
        json.dumps({"intent": "tell", "key_points": ["Rome it is.", " ", "See you!"]}),
    )
    assert (
        polished(f"system| [REPLY BIAS]\n{old}", f"system| [REPLY BIAS]\n{new}", "Ann| where?")
        == "Rome it is. See you!"
    )
    assert polished('system| [REPLY BIAS]\n{"intent": "say hello", "key_points": []}', "Ann| hm") == "say hello"


@pytest.mark.parametrize("bias", ["", "{", "[]", "7", '{"key_points": 7}', '{"key_points": [7, null]}', "[" * 100_000])
def test_a_bias_that_cannot_be_read_leaves_the_draft(bias: str) -> None:
    assert polished(f"system| [REPLY BIAS]\n{bias}", "The draft.") == "The draft."


# --- summing up


TALK = [
    "Ann| good morning", "Bob| I moved to Lisbon in 2024", "Cid| haha", "Ann| the meeting is on Friday at 5 pm", "Bob| ok",
    "Cid| we decided to buy the red tent for 120 euros", "Ann| lol", "Bob| what is for dinner?", "Cid| nice weather, isn't it",
]  # fmt: skip


def test_a_digest_keeps_the_facts_with_who_said_them() -> None:
    summary = ask("small", Digest, *TALK).summary
    assert "Bob: I moved to Lisbon in 2024." in summary
    assert "Ann: the meeting is on Friday at 5 pm." in summary
    assert "Cid: we decided to buy the red tent for 120 euros." in summary
    assert "haha" not in summary
    assert len(summary) < sum(map(len, TALK))


def test_a_transcript_in_one_message_is_read_line_by_line() -> None:
    summary = ask("small", Digest, "\n".join(line.replace("| ", ": ") for line in TALK)).summary
    assert "Bob: I moved to Lisbon in 2024." in summary
    chinese = ask("small", Digest, "小明：我搬到上海了\n小红：哈哈\n小明：周五交报告").summary
    assert "小明: 我搬到上海了" in chinese


def test_a_digest_of_a_digest_goes_on_without_speakers() -> None:
    assert (
        ask("small", Digest, "Ann moved to Rome in May.\nBob bought 3 boats.").summary
        == "Ann moved to Rome in May. Bob bought 3 boats."
    )


def test_a_long_talk_becomes_short() -> None:
    lines = [
        f"P{n % 7}| today number {n} was a long day with many words about the garden and the boat" for n in range(400)
    ]
    began = time.perf_counter()
    assert 100 < len(ask("small", Digest, *lines).summary) <= 1600
    ask("small", Digest, "word " * 200_000)
    assert time.perf_counter() - began < 5


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["Ann", "Bob", "system", "bot"]), anything), min_size=1, max_size=4), anything
)
def test_nothing_makes_any_role_stumble(lines: list[tuple[str, str]], system: str) -> None:
    said = [f"{who}| {text}" for who, text in lines]
    for role, kind in (("planner", Route), ("main", Thought), ("small", Digest), ("polish", str), ("thinker", str)):
        assert ask(role, kind, *said, system=system) == ask(role, kind, *said, system=system)
