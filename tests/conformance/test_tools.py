"""Calls of tools on every transport, and what every server of tools keeps (`lumia.mcp.ToolServer`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.errors import ToolError
from lumia.mcp import Tool, ToolServer
from lumia.replay import Replayer, recorded
from lumia.runs import RunResult
from lumia.runtime import Runtime
from lumia.testing import Bot
from tests.conformance.conftest import Probe
from tests.support.wait import until

# --- a call, on every transport


def planned(bot: Probe, folder: Path, input: Any, **values: Any) -> RunResult:
    return bot.pipe("planned", input=input, file=str(folder / "calls"), **values)


def test_a_retry_gets_the_recorded_result_and_the_tool_is_called_once(bot: Probe, tmp_path: Path) -> None:
    result = planned(bot, tmp_path, {"what": "rain", "times": 2}, tries=3)
    assert result.outcome == "done", result.reason
    assert [step.outcome for step in result.steps] == ["next", "retry", "retry", "stop"]
    answer = {"what": "rainrain", "chat": "console:a:group:7", "calls": 1}
    assert bot.seen == [[answer, ["probe.ask", "probe.broken"]]]
    calls = [entry for entry in bot.journal(result.run_id) if entry.kind == "effect"]
    assert [(entry.detail["kind"], entry.outcome) for entry in calls] == [
        ("tool", "done"), ("tool", "replayed"), ("tool", "replayed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wanted, why",
    [
        ({"input": {"what": 7}}, "tool probe.ask: the input does not fit: what: Input should be a valid string"),
        ({"input": {"why": "no luck"}, "tool": "broken"}, "tool probe.broken: RuntimeError: no luck"),
        ({"input": {}, "tool": "none"}, "tool probe.none: there is no such tool; there are ask, broken"),
        ({"input": {"what": "x"}, "passes": False}, "has not passed L1"),
        ({"input": {"what": "x"}, "passes": "yes"}, "has not passed L1"),
        ({"input": ["x"]}, "tool probe.ask: the input does not fit: a dict of JSON values is wanted; got a list"),
    ],
)
def test_a_call_without_a_result_says_why(bot: Probe, tmp_path: Path, wanted: dict[str, Any], why: str) -> None:
    result = planned(bot, tmp_path, **wanted)
    assert result.outcome == "failed" and why in result.reason
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("id, flow", [("asks at once", "pipe"), ("asks in an event", "event")])
def test_a_step_that_has_not_passed_l1_calls_nothing(bot: Probe, id: str, flow: str) -> None:
    result = getattr(bot, flow)(id)
    assert "ToolPermissionError" in result.steps[0].reason and len(result.steps) == 1
    assert [entry for entry in bot.journal(result.run_id) if entry.kind == "effect"] == []


def test_a_replay_calls_no_tool_and_differs_in_nothing(bot: Probe, tmp_path: Path, memory_runtime: Runtime) -> None:
    runs = [planned(bot, tmp_path, {"what": "rain"}), planned(bot, tmp_path, {"why": "no luck"}, tool="broken")]
    until(lambda: all(any(entry.kind == "end" for entry in bot.journal(run.run_id)) for run in runs))
    (tmp_path / "calls").unlink()
    code = Replayer(memory_runtime, memory_runtime.install(memory_runtime.plugins))  # type: ignore[arg-type]
    history = bot.runtime.transport.history()
    done = list(code.replay_all(recorded(entry for run in runs for entry in history.entries(run.run_id))))
    assert [(one.differences, one.skipped) for one in done] == [([], ""), ([], "")]
    assert not (tmp_path / "calls").exists()


# --- what every server keeps

HANG = threading.Event()


@lumia.mcp.tool("suite", "adds", description="Adds two numbers")
def adds(a: int, b: int = 1, *, context: Mapping[str, Any]) -> dict[str, Any]:
    CALLS.append((a, b))
    return {"sum": a + b, "chat": context.get("chat", "")}


@lumia.mcp.tool("suite", "fails", description="Fails")
def fails() -> dict[str, Any]:
    raise ValueError("no luck")


@lumia.mcp.tool("suite", "hangs", description="Waits for ever")
def hangs() -> dict[str, Any]:
    HANG.wait(20)
    return {}


CALLS: list[tuple[int, int]] = []


@pytest.fixture(params=["in process"])
def server(request: pytest.FixtureRequest) -> Iterator[ToolServer]:
    """A server with the tools above; one that speaks to a process of its own belongs here, too."""
    CALLS.clear()
    HANG.clear()
    with Bot(adds, fails, hangs) as bot:
        yield bot.runtime.tool_servers["suite"]
    HANG.set()


def asked(server: ToolServer, tool: str, input: Mapping[str, Any], timeout: float | None = 10.0) -> Any:
    return server.call(tool, input, context={"chat": "c"}, timeout=timeout)


def test_a_server_lists_its_tools_by_name_with_a_schema_that_has_no_context(server: ToolServer) -> None:
    found = server.tools()
    assert (server.name, [tool.name for tool in found]) == ("suite", ["adds", "fails", "hangs"])
    assert isinstance(found[0], Tool) and found[0].description == "Adds two numbers"
    schema = found[0].input_schema
    assert schema["type"] == "object" and sorted(schema["properties"]) == ["a", "b"]
    assert (schema["required"], schema["additionalProperties"]) == (["a"], False)


def test_a_tool_gets_its_input_with_defaults_and_the_context(server: ToolServer) -> None:
    assert asked(server, "adds", {"a": 1}) == {"sum": 2, "chat": "c"}
    assert asked(server, "adds", {"a": 1, "b": 5}, timeout=None) == {"sum": 6, "chat": "c"}


@pytest.mark.parametrize(
    "wrong", [{}, {"a": "1"}, {"a": 1, "c": 2}, {"a": True}, {"a": 1, "context": {"chat": "other"}}]
)
def test_an_input_that_does_not_fit_calls_nothing(server: ToolServer, wrong: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="the input does not fit") as caught:
        asked(server, "adds", wrong)
    assert (caught.value.server, caught.value.tool, CALLS) == ("suite", "adds", [])


def test_a_tool_that_fails_is_told_with_its_reason(server: ToolServer) -> None:
    with pytest.raises(ToolError) as caught:
        asked(server, "fails", {})
    assert (caught.value.server, caught.value.tool) == ("suite", "fails") and "no luck" in caught.value.reason


def test_a_tool_that_is_late_is_given_up(server: ToolServer) -> None:
    with pytest.raises(ToolError, match=r"not done within 0\.05 s"):
        asked(server, "hangs", {}, timeout=0.05)


def test_a_tool_nobody_has_is_named(server: ToolServer) -> None:
    with pytest.raises(ToolError, match="there is no such tool"):
        asked(server, "multiplies", {})


def test_calls_do_not_wait_for_each_other(server: ToolServer) -> None:
    hanging = threading.Thread(target=lambda: asked(server, "hangs", {}))
    hanging.start()
    assert asked(server, "adds", {"a": 2})["sum"] == 3
    HANG.set()
    hanging.join()
