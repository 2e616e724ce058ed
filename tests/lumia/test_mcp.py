"""Tools of plugins: what a mark promises, what a call gives, and who may make one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

import lumia
from lumia.errors import FlowError, RegistrationError, ToolError, ToolPermissionError
from lumia.mcp import MAX_RESULT
from lumia.mcp_local import MAX_RUNNING
from lumia.runs import RunResult
from lumia.testing import Bot
from tests.support.plugins import PluginBot
from tests.support.wait import until

CALLS: list[Any] = []
GOT: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    CALLS.clear()
    GOT.clear()


def offered(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Offer `fn` as the tool shop.<its name>."""
    options = {"description": "A tool", **options}
    return lumia.mcp.tool("shop", fn.__name__, **options)(fn)


def price(thing: str, count: int = 1, *, context: Mapping[str, Any]) -> dict[str, Any]:
    CALLS.append((thing, count, dict(context)))
    return {"price": 3 * count}


def planned(act: Callable[[], Any], *tools: Callable[..., Any], **options: Any) -> RunResult:
    """Run a pipeline whose second handler, after L1, does `act` and notes what it gives or raises."""

    @lumia.pipe.on("msg", priv=2)
    def gate(content: lumia.Box[Any]) -> None:
        content.meta["passed_l1"] = True
        lumia.utils.next()

    @lumia.pipe.on("msg", priv=1, retry=1)
    def plan(content: lumia.Box[Any]) -> None:
        try:
            GOT.append(act())
        except ToolError as error:
            GOT.append(error)

    with Bot(gate, plan, *(offered(tool, **options) for tool in tools), permissions=("mcp",)) as bot:
        return bot.start("msg", "hi")


def called(tool: Callable[..., Any], input: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return what a call of `tool` gives in a pipeline, or the `ToolError` it raises."""
    result = planned(lambda: lumia.system.mcp.call("shop", tool.__name__, input or {}, **options), tool)
    assert result.outcome == "done", result.reason
    return GOT[-1]


# --- calls


def test_a_call_gives_the_result_and_the_tool_gets_what_the_caller_knows() -> None:
    assert called(price, {"thing": "tea", "count": 2}, context={"chat": "console:a:group:7"}) == {"price": 6}
    assert CALLS == [("tea", 2, {"chat": "console:a:group:7"})]


def test_the_same_call_twice_in_a_step_is_made_once_and_another_one_is_made() -> None:
    def act() -> list[Any]:
        wanted = [({"thing": "tea"}, "a"), ({"thing": "tea"}, "a"), ({"thing": "tea"}, "b"), ({"thing": "ink"}, "a")]
        return [lumia.system.mcp.call("shop", "price", given, context={"chat": chat}) for given, chat in wanted]

    planned(act, price)
    assert [(thing, context["chat"]) for thing, _, context in CALLS] == [("tea", "a"), ("tea", "b"), ("ink", "a")]
    assert GOT == [[{"price": 3}] * 4]


def test_an_async_tool_is_awaited_and_cancelled_when_it_is_late() -> None:
    async def slow(seconds: float) -> dict[str, Any]:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            CALLS.append("cancelled")
            raise
        return {"slept": seconds}

    assert called(slow, {"seconds": 0.0}) == {"slept": 0.0}
    late = called(slow, {"seconds": 30.0}, timeout=0.05)
    assert (late.tool, late.reason, CALLS) == ("slow", "not done within 0.05 s", ["cancelled"])


def test_a_tool_has_a_time_limit_of_its_own() -> None:
    gate = threading.Event()

    def hangs() -> dict[str, Any]:
        gate.wait(20)
        return {}

    planned(lambda: lumia.system.mcp.call("shop", "hangs", {}), hangs, timeout=0.05)
    gate.set()
    assert GOT[0].reason == "not done within 0.05 s"


def test_calls_that_hang_take_no_more_than_their_share_of_threads() -> None:
    gate = threading.Event()

    def hangs() -> dict[str, Any]:
        gate.wait(20)
        return {}

    with Bot(offered(hangs)) as bot:
        server = bot.runtime.tool_servers["shop"]

        def ask(timeout: float = 0.001) -> str:
            try:
                return str(server.call("hangs", {}, context={}, timeout=timeout))
            except ToolError as error:
                return error.reason

        assert {ask() for _ in range(MAX_RUNNING)} == {"not done within 0.001 s"}
        assert ask() == f"{MAX_RUNNING} calls of it are still running in this process"
        gate.set()
        until(lambda: ask(timeout=5.0) == "{}")


@pytest.mark.parametrize(
    "result, why",
    [
        (["a"], "its result is a list; a tool returns a dict"),
        ({1: "x"}, "its result is no JSON"),
        ({"x": {1, 2}}, "its result is no JSON"),
        ({"x": (1, 2)}, "its result is no JSON"),
        ({"x": float("nan")}, "its result is no JSON"),
        ({"x": "y" * MAX_RESULT}, "its result can't be recorded"),
        (threading.Lock(), "a tool returns a dict"),
        ({"x": threading.Lock()}, "its result is no JSON"),
    ],
)
def test_a_result_that_is_none_is_refused_by_name(result: Any, why: str) -> None:
    def odd() -> Any:
        return result

    error = called(odd)
    assert isinstance(error, ToolError) and why in error.reason
    assert (error.server, error.tool, str(error)) == ("shop", "odd", f"tool shop.odd: {error.reason}")


def test_a_result_over_a_mebibyte_is_refused_also_where_boxes_may_be_larger() -> None:
    def large() -> dict[str, Any]:
        return {"x": "y" * MAX_RESULT}

    @lumia.pipe.on("msg", priv=2)
    def gate(content: lumia.Box[Any]) -> None:
        content.meta["passed_l1"] = True
        lumia.utils.next()

    @lumia.pipe.on("msg")
    def plan(content: lumia.Box[Any]) -> None:
        lumia.system.mcp.call("shop", "large", {})

    config = {"lumia": {"box.max_bytes": 4 * MAX_RESULT}}
    with Bot(gate, plan, offered(large), permissions=("mcp",), config=config) as bot:
        reason = bot.start("msg", 1).steps[1].reason
    assert f"{MAX_RESULT + 9} bytes of JSON; {MAX_RESULT} are the most" in reason


def test_whatever_a_tool_raises_is_a_tool_error() -> None:
    def exits() -> dict[str, Any]:
        raise SystemExit(3)

    def times_out() -> dict[str, Any]:
        raise TimeoutError("the shop is closed")

    assert "SystemExit" in called(exits).reason
    assert called(times_out).reason == "TimeoutError: the shop is closed"


def test_an_unknown_server_is_told_with_those_there_are() -> None:
    planned(lambda: lumia.system.mcp.call("shelf", "price", {}), price)
    assert GOT[0].reason.startswith("there is no server of this name (there are: shop)")


@pytest.mark.parametrize(
    "server, tool, input, why",
    [
        ("shop", "price", "tea", "a dict of JSON values is wanted; got a str"),
        ("shop", "price", {"thing": float("inf")}, "a dict of JSON values is wanted; Out of range"),
        ("shop", "price", {"thing": "\ud800"}, "the input does not fit"),
        ("shop", "pri\nce", {}, "no tool of such a name"),
        ("shop", "p" * 600, {}, "no tool of such a name"),
        ("", "price", {}, "no tool of such a name"),
    ],
)
def test_whatever_a_model_makes_up_is_a_tool_error(server: str, tool: str, input: Any, why: str) -> None:
    planned(lambda: lumia.system.mcp.call(server, tool, input), price)
    assert isinstance(GOT[0], ToolError) and why in GOT[0].reason
    assert CALLS == []


def test_what_is_told_of_a_failed_call_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "a-long-secret")

    def leaks() -> dict[str, Any]:
        raise RuntimeError("401 for a-long-secret at postgres://me:pass-word@db/x")

    told = called(leaks)
    assert told.reason.startswith("RuntimeError: 401 for ")
    assert "a-long-secret" not in str(told) and "pass-word" not in str(told)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"timeout": True}, {"context": {"x": {1}}}])
def test_a_call_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    result = planned(lambda: lumia.system.mcp.call("shop", "price", {"thing": "tea"}, **options), price)
    assert (result.outcome, CALLS) == ("failed", []) and "PayloadError" in result.reason


# --- who may call


def test_a_plugin_without_the_permission_calls_nothing() -> None:
    @lumia.pipe.on("msg", priv=2)
    def gate(content: lumia.Box[Any]) -> None:
        content.meta["passed_l1"] = True
        lumia.utils.next()

    @lumia.pipe.on("msg", priv=1)
    def plan(content: lumia.Box[Any]) -> None:
        lumia.system.mcp.call("shop", "price", {"thing": "tea"})

    with Bot(gate, plan, offered(price)) as bot:
        result = bot.start("msg", "hi")
    assert len(result.steps) == 2 and '"permissions": ["mcp"]' in result.steps[1].reason
    assert CALLS == []


def test_outside_of_handlers_nobody_calls() -> None:
    with pytest.raises(FlowError, match="works only while a handler runs"):
        lumia.system.mcp.call("shop", "price", {})


def test_an_async_handler_calls_from_a_thread_and_is_told_so() -> None:
    @lumia.pipe.on("msg", priv=2)
    def gate(content: lumia.Box[Any]) -> None:
        content.meta["passed_l1"] = True
        lumia.utils.next()

    @lumia.pipe.on("msg", priv=1)
    async def plan(content: lumia.Box[Any]) -> None:
        with pytest.raises(FlowError, match=r"await asyncio\.to_thread"):
            lumia.system.mcp.call("shop", "price", {"thing": "tea"})
        GOT.append(await asyncio.to_thread(lumia.system.mcp.call, "shop", "price", {"thing": "tea"}))

    with Bot(gate, plan, offered(price), permissions=("mcp",)) as bot:
        assert bot.start("msg", "hi").outcome == "done"
    assert GOT == [{"price": 3}]


def test_a_refusal_is_not_tried_again() -> None:
    @lumia.pipe.on("msg", retry=5)
    def plan(content: lumia.Box[Any]) -> None:
        lumia.system.mcp.call("shop", "price", {"thing": "tea"})

    with Bot(plan, offered(price), permissions=("mcp",)) as bot:
        result = bot.start("msg", "hi")
    assert len(result.steps) == 1 and ToolPermissionError.__name__ in result.reason


def test_servers_outside_of_the_bot_are_not_there_yet() -> None:
    with pytest.raises(ToolError, match=r"tool server files: .*not supported yet.*@lumia\.mcp\.tool"):
        lumia.system.mcp.register("files", "npx", ["-y", "server-files"], {})


# --- offering


class Address(BaseModel):
    street: str


def test_the_schema_says_what_the_signature_does() -> None:
    def send(
        to: Address, count: Annotated[int, Field(ge=1, description="how many")] = 1, json: list[str] | None = None
    ) -> dict[str, Any]:
        """Send something."""
        return {"street": to.street, "count": count, "json": json}

    with Bot(offered(send, description="")) as bot:
        (tool,) = lumia.system.mcp.tools()
        server = bot.runtime.tool_servers["shop"]
        given = {"to": {"street": "Main"}, "json": ["a"]}
        assert server.call("send", given, context={}, timeout=None) == {"street": "Main", "count": 1, "json": ["a"]}
    assert (str(tool), tool.description) == ("shop.send", "Send something.")
    assert tool.input_schema["required"] == ["to"]
    assert tool.input_schema["properties"]["count"] == {
        "default": 1, "description": "how many", "minimum": 1, "type": "integer",
    }  # fmt: skip
    assert "title" not in tool.input_schema


def test_a_bot_without_tools_has_none() -> None:
    with Bot():
        assert lumia.system.mcp.tools() == []


def no_type(thing) -> dict[str, Any]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return {}


def many(*things: str) -> dict[str, Any]:
    return {}


def by_place(thing: str, /) -> dict[str, Any]:
    return {}


def no_schema(thing: threading.Thread) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    "fn, server, options, why",
    [
        (no_type, "shop", {}, r"test\.no_type .*parameter 'thing' needs a name and a type"),
        (many, "shop", {}, "parameter 'things' needs a name"),
        (by_place, "shop", {}, "parameter 'thing' needs a name"),
        (no_schema, "shop", {}, "no JSON Schema can be made of its types"),
        (price, "Shop 7", {}, "the server's name is at most 128"),
        (price, "shop", {"description": ""}, "needs a description or a docstring"),
        (price, "shop", {"timeout": 0}, "timeout is seconds above 0"),
    ],
)
def test_what_can_be_no_tool_is_refused_when_it_is_loaded(
    fn: Callable[..., Any], server: str, options: dict[str, Any], why: str
) -> None:
    tool = lumia.mcp.tool(server, "price", **{"description": "A tool", **options})(_copy(fn))
    with pytest.raises(RegistrationError, match=why), Bot(tool):
        pass


def _copy(fn: Any) -> Any:
    """Return a function of its own, so that marks of one case don't meet those of another."""
    copy = type(fn)(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = fn.__kwdefaults__, fn.__annotations__
    return copy


TOOL = """
import lumia


@lumia.mcp.tool("shop", "price", description="The price of a thing")
def price(thing: str) -> dict:
    return {}
"""


def test_two_plugins_that_offer_the_same_tool_are_told_and_the_first_keeps_it(tmp_path: Path) -> None:
    with PluginBot(tmp_path) as bot:
        bot.plugin("plugins/apples", TOOL)
        bot.plugin("plugins/pears", TOOL)
        loaded = bot.load()
    (failure,) = loaded.failures
    assert (failure.name, failure.stage) == ("pears", "register")
    assert "pears.price offers the tool 'shop.price', and so does apples.price" in failure.message
