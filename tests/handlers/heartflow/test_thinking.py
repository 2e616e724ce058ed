"""L3: what follows from a thought: updates, relations, hints, and the shift of attention with the end of the chain."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import PLUGINS, Model, msg

SCOPE = "console:me:group:g-1"
OFFLINE = {"models.embedding.model": "offline"}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr("lumia.models.offline.answer", model)
    return model


@contextmanager
def heartflow(*more: Any, **config: Any) -> Iterator[Bot]:
    with Bot(*PLUGINS, *more, config={"heartflow": config, "lumia": OFFLINE}, clock=ManualClock()) as bot:
        yield bot


def taken() -> tuple[list[tuple[str, dict[str, Any]]], Any, Any]:
    updates: list[tuple[str, dict[str, Any]]] = []

    @lumia.event.consumer("memory.update")
    def memory(content: lumia.Box[Any]) -> None:
        updates.append(("memory", content.into()))

    @lumia.event.consumer("relation.update")
    def relation(content: lumia.Box[Any]) -> None:
        updates.append(("relation", content.into()))

    return updates, memory, relation


def attention() -> tuple[float, ...]:
    kept = lumia.store.of("heartflow").get("planner", scope=SCOPE)
    return state().unpacked(kept["vector"]) if kept else ()


def state() -> Any:
    return sys.modules["handlers.heartflow.state"]


def thought(**more: Any) -> dict[str, Any]:
    return {"reply_bias": {"key_points": ["yes"]}, "focus": "boats", **more}


def test_updates_carry_where_they_come_from(model: Model) -> None:
    model.roles["main"] = thought(
        memory_updates=[{"action": "upsert", "topic": "boats", "content": "has a boat", "importance": 0.7}],
        relation_updates=[{"from": "7", "to": "self", "type": "friend", "weight_delta": 0.05}],
    )
    updates, *consumers = taken()
    with heartflow(*consumers) as bot:
        run = bot.start("msg", msg("I have a boat")).run_id
    assert [kind for kind, _ in updates] == ["memory", "relation"]
    (_, memory), (_, relation) = updates
    assert memory["origin"] == relation["origin"]
    assert (memory["origin"]["sender"]["id"], memory["origin"]["run_id"]) == ("7", run)
    assert (memory["topic"], memory["importance"]) == ("boats", 0.7)
    assert (relation["from"], relation["to"], relation["weight_delta"]) == ("7", "self", 0.05)


def test_what_is_made_up_wrongly_is_left_out_and_the_rest_is_kept(model: Model) -> None:
    model.roles["main"] = thought(
        memory_updates=[{"topic": "", "content": "of nothing"}, {"topic": "  ", "content": "x"}, {"topic": "tea"}],
        relation_updates=[{"from": "", "to": "self", "type": "friend"}, {"from": "a\x00b", "to": "7", "type": "x"}],
    )
    updates, *consumers = taken()
    with heartflow(*consumers) as bot:
        assert bot.start("msg", msg("hello")).replies == ["fine"]
        assert bot.dead == []
    assert [one["topic"] for kind, one in updates if kind == "memory"] == ["tea"]


def test_what_the_bot_meant_is_remembered_by_setting(model: Model) -> None:
    model.roles["main"] = thought()
    updates, *consumers = taken()
    with heartflow(*consumers, remember_bias=True) as bot:
        bot.start("msg", msg("hello"))
    assert [(one["topic"], one["content"]) for _, one in updates] == [("boats", "yes")]


def test_the_attention_moves_with_the_end_of_the_chain_and_not_before(model: Model) -> None:
    model.roles["main"] = thought()
    seen: list[tuple[float, ...]] = []

    @lumia.pipe.on("msg", priv=-5)
    def between(content: lumia.Box[Any]) -> None:
        seen.append(attention())
        lumia.utils.next()

    with heartflow(between) as bot:
        bot.start("msg", msg("I have a boat"))
        moved = attention()
        assert seen == [()]
        assert math.isclose(math.fsum(x * x for x in moved), 1.0, rel_tol=1e-2)
        bot.start("msg", msg("and a cat"))
        assert attention() != moved


def test_a_shift_of_the_models_own_is_added_and_renormalised(model: Model) -> None:
    model.roles["main"] = thought(attention_shift=[1.0] + [0.0] * 255)
    with heartflow() as bot:
        before = [0.0, 1.0] + [0.0] * 254
        kept = {"vector": state().packed(before), "model": state().embedding_model()}
        lumia.store.of("heartflow").set("planner", kept, scope=SCOPE)
        bot.start("msg", msg("hello"))
        assert attention()[:3] == pytest.approx((math.sqrt(0.5), math.sqrt(0.5), 0.0), abs=1e-3)


@given(st.lists(st.floats(-1e6, 1e6), max_size=8), st.lists(st.floats(-1e6, 1e6), max_size=8))
def test_a_shifted_vector_has_unit_length_or_is_none(vector: list[float], by: list[float]) -> None:
    from handlers.heartflow import state

    moved = state.added(vector, by)
    assert moved == () or math.isclose(math.fsum(x * x for x in moved), 1.0, rel_tol=1e-6)
    assert state.unpacked(state.packed(moved)) == pytest.approx(moved, abs=1e-3)


@given(st.text(max_size=40))
def test_a_vector_that_is_none_is_read_as_none(text: str) -> None:
    from handlers.heartflow import state

    assert all(map(math.isfinite, state.unpacked(text)))
