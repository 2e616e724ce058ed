"""L2: tools and deeper thought where the planner wants them, recorded, bounded, and never in the way of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lumia
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import PLUGINS, Model, msg

CALLS: list[tuple[str, Any]] = []


@lumia.mcp.tool("town", "opening_hours")
def opening_hours(place: str, context: dict[str, Any]) -> dict[str, Any]:
    """When a place of the town is open."""
    CALLS.append((place, context.get("chat")))
    if place == "ruin":
        raise RuntimeError("nobody keeps it")
    return {"place": place, "hours": "9-17"}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    CALLS.clear()
    model = Model()
    monkeypatch.setattr("lumia.models.offline.answer", model)
    return model


@contextmanager
def heartflow(*more: Any, **config: Any) -> Iterator[Bot]:
    with Bot(*PLUGINS, *more, config={"heartflow": config}, clock=ManualClock()) as bot:
        yield bot


def asked(tool: str, **given: Any) -> dict[str, Any]:
    return {"route": "external", "server": "town", "tool": tool, "input": given}


def in_turn(model: Model, *routes: dict[str, Any]) -> None:
    """Let the planner give these routes, then say that it is ready."""
    left = [*routes]
    model.roles["planner"] = lambda request: left.pop(0) if left else {"route": "ready"}


def system_of(request: Any) -> str:
    return "\n".join(line.content for line in request.messages if line.role == "system")


def noted() -> dict[str, Any]:
    steps = [entry for entry in lumia.runs.tail("0") if entry.kind == "step" and entry.handler == "heartflow.plan"]
    return dict(steps[-1].detail)


def test_a_tool_is_called_for_the_chat_and_its_result_reaches_the_main_model(model: Model) -> None:
    in_turn(model, asked("opening_hours", place="museum"))
    with heartflow(opening_hours) as bot:
        assert bot.start("msg", msg("when does the museum open?")).replies == ["fine"]
        assert noted()["tools"] == ["town.opening_hours"]
    assert CALLS == [("museum", "console:me:group:g-1")]
    assert "- town.opening_hours: When a place of the town is open." in model.of("planner")[0].system
    told = system_of(model.of("main")[0])
    assert "[TOOL RESULTS]" in told and '"hours":"9-17"' in told


@pytest.mark.parametrize(
    "route, why",
    [
        (asked("opening_hours", place="ruin"), "nobody keeps it"),
        (asked("opening_hours", street="Main"), "place"),
        (asked("no_such_tool"), "there is no tool town.no_such_tool"),
        ({"route": "external"}, "there is no tool ."),
    ],
    ids=["a tool that fails", "a wrong input", "an unknown tool", "no tool at all"],
)
def test_what_cannot_be_called_costs_the_answer_nothing(model: Model, route: dict[str, Any], why: str) -> None:
    in_turn(model, route)
    with heartflow(opening_hours) as bot:
        assert bot.start("msg", msg("when does it open?")).replies == ["fine"]
        assert why in noted()["tool_failed"]
        assert bot.dead == []


def test_a_planner_that_never_has_enough_is_stopped(model: Model) -> None:
    in_turn(model, *(asked("opening_hours", place=f"house {n}") for n in range(50)))
    with heartflow(opening_hours, tool_rounds=3) as bot:
        assert bot.start("msg", msg("when does it open?")).replies == ["fine"]
    assert len(model.of("planner")) == len(CALLS) == 3


def test_the_same_question_is_asked_once(model: Model) -> None:
    in_turn(model, *[asked("opening_hours", place="museum")] * 5)
    with heartflow(opening_hours, tool_rounds=5) as bot:
        bot.start("msg", msg("when does it open?"))
    assert len(CALLS) == 1


def test_no_planner_is_asked_where_there_is_nothing_to_decide(model: Model) -> None:
    with heartflow(opening_hours) as bot:
        bot.start("msg", msg("good morning"))
        lumia.config.get("heartflow").tool_rounds = 0
        bot.start("msg", msg("when does it open?"))
    assert model.of("planner") == []


def test_a_hard_question_is_thought_through_first(model: Model) -> None:
    model.roles |= {"planner": {"route": "reason", "question": "why is it so?"}, "thinker": "Because of the tides."}
    with heartflow() as bot:
        bot.start("msg", msg("why is the harbour dry, step by step?"))
        assert noted()["calls"] == {"planner": 1, "thinker": 1}
    assert model.of("thinker")[0].messages[-1].content == "why is it so?"
    assert "Because of the tides." in system_of(model.of("main")[0])


@pytest.mark.parametrize("answer", ["", lumia.errors.ModelError("asleep")], ids=["nothing", "an error"])
def test_a_thinker_that_has_nothing_to_say_is_left_out(model: Model, answer: Any) -> None:
    model.roles |= {"planner": {"route": "reason"}, "thinker": answer}
    with heartflow() as bot:
        assert bot.start("msg", msg("why is the harbour dry?")).replies == ["fine"]
    assert "[TOOL RESULTS]" not in system_of(model.of("main")[0])


def test_the_package_is_what_the_specification_says(model: Model) -> None:
    packed: list[tuple[dict[str, Any], dict[str, Any]]] = []

    @lumia.pipe.on("msg", priv=30)
    def look(content: lumia.Box[Any]) -> None:
        packed.append((content.into(), dict(content.meta)))
        lumia.utils.next()

    payload = msg("@Lumia hello", mentions_bot=True)
    with heartflow(look) as bot:
        bot.start("msg", payload)
    ((package, meta),) = packed
    assert list(package) == [
        "group_id", "recent_messages", "context_summary", "memory_rag", "hint_injections", "tool_results",
        "sender_profile", "force_engage",
    ]  # fmt: skip
    assert (package["group_id"], package["force_engage"], meta["msg"]) == ("g-1", True, payload)
    assert package["sender_profile"] == {"id": "7", "name": "Ann", "relation_summary": ""}
    assert package["recent_messages"][-1]["text"] == "@Lumia hello"
