"""A lab run on a chain with the layers' names: the log's clock, what waits, and what is read off the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import lumia
from handlers.heartflow import lab_baseline, lab_score
from handlers.heartflow.lab_log import Entry
from handlers.heartflow.lab_setup import SetupError, Variant
from handlers.heartflow.lab_steps import Heard, heard
from handlers.heartflow.lab_world import World, live, payload
from lumia.testing import Bot

START = 1_700_000_000.0


@lumia.pipe.on("msg", priv=200)
def filter_message(content: lumia.Box[dict[str, Any]]) -> None:
    """L0: nobody hears a spammer."""
    if content.into()["sender"]["id"] == "spammer":
        lumia.utils.stop("blacklist: sender spammer")
    else:
        lumia.utils.next()


@lumia.pipe.on("msg", priv=100)
def perceive(content: lumia.Box[dict[str, Any]]) -> None:
    """L1: engages in what holds a question mark."""
    lumia.models.chat("small", [{"role": "user", "content": "?"}])
    score = 0.9 if "?" in content.into()["text"] else 0.1
    lumia.annotate(layer="L1", score=score, threshold=0.65)
    if score > 0.65:
        lumia.utils.next()
    else:
        lumia.utils.stop(f"score {score:.2f} under 0.65: no question")


@lumia.pipe.on("msg", priv=10)
def think(content: lumia.Box[dict[str, Any]]) -> None:
    """L3: answers what isn't rude."""
    message = content.into()
    lumia.annotate(at=lumia.system.now())
    reply = lumia.models.chat("main", [{"role": "user", "content": message["text"]}])
    if "rude" in message["text"]:
        lumia.utils.stop("not worth a reply: rude")
        return
    to = lumia.payloads.destination(199, message["platform"], "group", message["chat"]["id"])
    lumia.event.start(to, lumia.Box.any({"text": f"re {message['message_id']} {reply.text[:1]}"}))
    lumia.utils.next()


CHAIN = (filter_message, perceive, think)


def said(number: int, at: float, text: str = "hm", **fields: Any) -> Entry:
    named = {"sender_id": "7", "sender_name": "Ann", **fields}
    return Entry(f"m{number}", START + at, "g", text=text, **named)


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., World]:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lumia.toml").touch()

    def run(*log: Entry, variant: Variant | None = None, chain: tuple[Any, ...] = CHAIN) -> World:
        return live(log, variant or Variant(), tmp_path, parts=chain)

    return run


def of(world: World) -> list[Heard]:
    return heard(world)[0]


def notes_of(world: World, handler: str, name: str) -> Iterator[Any]:
    steps = (told for told in world.entries if told.kind == "step" and told.handler == handler)
    return (told.detail[name] for told in steps)


# --- the clock


def test_a_message_is_heard_at_its_own_time(lab: Callable[..., World]) -> None:
    world = lab(said(1, 0, "one?"), said(2, 3600, "two?"), said(3, 86400 * 3, "three?"))
    starts = [at - START for at in notes_of(world, "heartflow.think", "at")]
    assert starts == [0.5, 3600.5, 86400 * 3 + 0.5]  # after half a second of perception


def test_what_is_said_while_the_bot_thinks_waits_for_its_turn(lab: Callable[..., World]) -> None:
    one, two, three = of(lab(said(1, 0, "one?"), said(2, 1, "two?"), said(3, 30, "three?")))
    assert one.seconds == 3.5
    assert two.seconds == 6.0  # until 3.5 it waits, then 3.5 of its own, said at 1
    assert three.seconds == 3.5


def test_a_message_is_in_the_lane_before_the_run_ahead_goes_on(lab: Callable[..., World]) -> None:
    world = lab(said(1, 0, "one?"), said(2, 1, "two?"))
    order = [(told.kind, world.runs[told.run_id].message_id) for told in world.entries if told.run_id in world.runs]
    assert order.index(("start", "m2")) < order.index(("end", "m1"))


def test_calls_take_the_time_they_are_given(lab: Callable[..., World]) -> None:
    variant = Variant().with_seconds(["main=20", "small=0"])
    assert [one.seconds for one in of(lab(said(1, 0, "one?"), variant=variant))] == [20.0]


def test_ticks_come_when_they_are_due_and_a_long_silence_has_few(lab: Callable[..., World]) -> None:
    fired: list[float] = []

    @lumia.event.consumer("cron.15m")
    def compress(content: lumia.Box[Any]) -> None:
        fired.append(content.into()["due"])
        assert lumia.system.now() >= content.into()["due"]

    far = 900 * 1000.0
    lab(said(1, 0), said(2, far), chain=(*CHAIN, compress))
    assert fired == sorted(fired)
    assert all(due % 900 == 0 for due in fired)
    before = [due for due in fired if due <= START + far]
    assert len(before) == 9
    assert before[-1] == (START + far) // 900 * 900
    assert len(fired) == 11  # the world goes on for half an hour


# --- what is read off the trace


def test_engaged_is_who_passed_perception(lab: Callable[..., World]) -> None:
    spam = said(4, 180, "x", sender_id="spammer")
    found = of(lab(said(1, 0, "well"), said(2, 60, "why?"), said(3, 120, "rude?"), spam))
    assert [(one.decision, one.layer, one.reason) for one in found] == [
        ("silent", "L1", "score 0.10 under 0.65: no question"),
        ("engage", "L1", "score 0.90 over 0.65"),
        ("engage", "L3", "not worth a reply: rude"),
        ("silent", "L0", "blacklist: sender spammer"),
    ]
    assert [one.replies for one in found][0::2] == [[], []]
    assert found[1].replies[0].startswith("re m2")


def test_calls_are_counted_for_their_layer_and_their_role(lab: Callable[..., World]) -> None:
    world = lab(said(1, 0, "well"), said(2, 60, "why?"))
    silent, engaged = of(world)
    assert {layer: (cost.calls, cost.main) for layer, cost in silent.used.items()} == {"L1": (1, 0)}
    assert {layer: (cost.calls, cost.main) for layer, cost in engaged.used.items()} == {"L1": (1, 0), "L3": (1, 1)}
    assert [call.role for call in world.calls] == ["small", "small", "main"]


def test_a_run_that_fails_for_good_is_silent_and_says_so(lab: Callable[..., World]) -> None:
    @lumia.pipe.on("msg", priv=150, retry=1)
    def broken(content: lumia.Box[Any]) -> None:
        raise ValueError("no such thing")

    (one,) = of(lab(said(1, 0, "why?"), chain=(filter_message, broken, perceive)))
    assert (one.decision, one.failed, one.replies) == ("silent", True, [])
    assert "no such thing" in one.reason


def test_a_message_too_large_to_be_accepted_is_told_and_the_others_go_on(lab: Callable[..., World]) -> None:
    large, small = of(lab(said(1, 0, "x" * 2_000_000), said(2, 60, "why?")))
    assert (large.decision, large.layer, large.failed) == ("silent", "start", True)
    assert large.reason.startswith("not accepted: ")
    assert small.decision == "engage"


def test_figures_count_labelled_messages_only(lab: Callable[..., World]) -> None:
    world = lab(
        said(1, 0, "why?", label="engage"), said(2, 60, "who?", label="silent"),
        said(3, 120, "tell me", label="engage"), said(4, 180, "hm", label="silent"), said(5, 240, "where?"),
    )  # fmt: skip
    found = of(world)
    run = lab_score.result(found, {}, lab_baseline.tokens(found, world), Variant(), ["log"])
    assert (run["messages"], run["labelled"], run["engaged"], run["wrong"]) == (5, 4, 2, 2)
    assert (run["precision"], run["recall"], run["f1"]) == (0.5, 0.5, 0.5)
    assert run["main_call_ratio"] == 0.6
    assert [one["message_id"] for one in run["decisions"] if one["wrong"]] == ["m2", "m3"]
    layers = {one["layer"]: (one["engaged"], one["silent"], one["calls"]) for one in run["layers"]}
    assert layers["L1"] == (3, 2, 5)
    assert layers["L3"] == (0, 0, 3)


def test_the_baseline_pays_for_the_context_again_with_every_message(lab: Callable[..., World]) -> None:
    world = lab(*(said(number, 60.0 * number, "a sentence of some length") for number in range(6)))
    found = of(world)
    every = [lab_baseline.tokens(found[:count], world).thinking for count in range(1, 7)]
    steps = [after - before for before, after in pairwise(every)]
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]
    world.lines = 1
    assert lab_baseline.tokens(found, world).thinking == 6 * every[0]
    assert lab_baseline.tokens(found, world).plain < every[0] * 6


# --- the payload and what can't be set up


def test_a_line_becomes_the_payload_an_adapter_would_make(lab: Callable[..., World]) -> None:
    with Bot(filter_message):
        made = payload(said(1, 0, "@Lumia hi", reply_to="bot:m0"), "Lumia")
        noted = payload(said(2, 0, "@Lumia said so", mentions=False), "Lumia")
    assert made["platform"] == "lab"
    assert (made["mentions_bot"], made["mentions"]) == (True, [{"id": "lab", "name": "Lumia"}])
    assert (made["reply_to"], made["time"]) == ("bot:m0", START)
    assert made["segments"][0] == {"type": "reply", "data": {"id": "bot:m0", "sender_id": "lab"}}
    assert (noted["mentions_bot"], noted["mentions"]) == (False, [])


def test_a_model_that_cannot_work_is_told_before_anything_runs(
    lab: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SetupError, match=r"--model main=openai:gpt-5: .* needs a key"):
        lab(said(1, 0), variant=Variant().with_models(["main=openai:gpt-5"]))
