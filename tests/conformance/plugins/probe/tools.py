"""Tools, and pipelines that call them after L1 or before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia

from .common import QUICK, count_call, note


@lumia.mcp.tool("probe", "ask", description="Counts its calls, and says where it was asked")
def ask(what: str, times: int = 1, *, context: Mapping[str, Any]) -> dict[str, Any]:
    return {"what": what * times, "chat": context["chat"], "calls": count_call(context["file"])}


@lumia.mcp.tool("probe", "broken")
async def breaks_down(why: str) -> dict[str, Any]:
    """Raise what it is asked for."""
    raise RuntimeError(why)


@lumia.pipe.on("planned", priv=2)
def gate(content: lumia.Box[Any]) -> None:
    content.meta["passed_l1"] = content.into().get("passes", True)
    lumia.utils.next()


@lumia.pipe.on("planned", priv=1, retry=QUICK)
def plans(content: lumia.Box[Any]) -> None:
    value = content.into()
    context = {"chat": "console:a:group:7", "file": value["file"]}
    found = lumia.system.mcp.call("probe", value.get("tool", "ask"), value["input"], context=context)
    note(content, found, [str(tool) for tool in lumia.system.mcp.tools()])
    if "tries" in value and count_call(value["file"] + ".tries") < value["tries"]:
        raise RuntimeError("once more")


@lumia.pipe.on("asks at once", retry=1)
def asks_at_once(content: lumia.Box[Any]) -> None:
    """Say that the run has passed L1 and call a tool in the same step."""
    content.meta["passed_l1"] = True
    lumia.system.mcp.call("probe", "ask", {"what": "too soon"})


@lumia.event.consumer("asks in an event", retry=1)
def asks_in_an_event(content: lumia.Box[Any]) -> None:
    lumia.system.mcp.call("probe", "ask", {"what": "no pipeline"})
