"""Tools that a bot's planner can call: what a plugin offers, and the port behind `lumia.system.mcp` (spec §9.3, §10).

A plugin offers a tool by marking a function; its parameters are the tool's input, their types its schema::

    @lumia.mcp.tool("weather", "forecast", description="The weather of a city in the next days")
    def forecast(city: str, days: Annotated[int, Field(ge=1, le=7)] = 3, *, context: Mapping[str, Any]) -> dict:
        return {"days": [...]}

`context` is what the caller knows and the model must not choose, such as the chat; it is no part of the schema. The
calls are made by `lumia.system.mcp` (`lumia.mcp_calls`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lumia.marks import marker

if TYPE_CHECKING:
    from lumia.marks import F

KIND = "tool"
PERMISSION = "mcp"
"""What the manifest of a plugin lists under `permissions` whose handlers call tools."""
PASSED_L1 = "passed_l1"
"""Key of a Box's `meta`: the run has passed the relevance gate, so what comes after may call tools."""
TIMEOUT = 30.0
"""Seconds a call may take where neither the caller nor the tool says otherwise (spec §10.3)."""
MAX_RESULT = 1 << 20
"""Bytes of a result as JSON."""
CONTEXT = "context"
"""The parameter that gets what the caller knows."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Tool:
    """What a caller needs to know of a tool. input_schema: JSON Schema (2020-12) of the object it takes."""

    server: str
    name: str
    description: str
    input_schema: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.server}.{self.name}"


class ToolServer(Protocol):
    """A server of tools. `lumia.mcp_local` has that for tools of plugins; `tests/conformance` says what one keeps."""

    name: str

    def tools(self) -> Sequence[Tool]:
        """Return its tools, by name."""

    def call(self, tool: str, input: Mapping[str, Any], *, context: Mapping[str, Any], timeout: float | None) -> Any:
        """Return what a tool gives for `input`.

        context: what the caller knows and the model must not choose. timeout: seconds, the tool's own when None. Raises
        `ToolError` for an unknown tool, for an input that doesn't fit its schema, before anything is done, for a call
        that fails, and for one that isn't over in time.
        """


def is_name(text: object) -> bool:
    """Tell whether `text` can name a server or a tool: as in MCP at most 128 of A-Z, a-z, 0-9, `.`, `_`, `-`."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def tool(server: str, name: str, *, description: str = "", timeout: float = TIMEOUT) -> Callable[[F], F]:
    """Mark a function as the tool `name` of `server`; it returns a dict of JSON values, of 1 MiB at most.

    Its parameters are the input: each has a type, from which the schema comes and against which the input is checked. A
    parameter `context` gets what the caller knows. description: for the planner, the docstring by default. timeout:
    seconds. The function may be `def`, then it runs in a thread of its own, or `async def`. It only answers: a retry of
    the step that called it gets the recorded result and doesn't run it again.
    """
    return marker(KIND, f"{server}.{name}", server=server, tool=name, description=description, timeout=timeout)
