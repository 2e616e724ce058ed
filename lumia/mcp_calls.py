"""`lumia.system.mcp`: who may call a tool, and the call as an effect (spec §10.1, §10.3; DESIGN §11)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

from lumia.context import StepContext, required
from lumia.errors import BoxError, FlowError, PayloadError, ToolError, ToolPermissionError
from lumia.journal import clean, described
from lumia.marks import is_seconds
from lumia.mcp import MAX_RESULT, PASSED_L1, PERMISSION, Tool, is_name
from lumia.recording import observed

if TYPE_CHECKING:
    from lumia.mcp import ToolServer


class Mcp:
    """`lumia.system.mcp`: the tools of this bot."""

    def tools(self) -> list[Tool]:
        """Return what can be called, by server and name; in a step recorded by name for replay."""
        known = {str(tool): tool for server in _servers().values() for tool in server.tools()}
        names = observed("tools", "", lambda: sorted(known))
        return [known[name] for name in names if name in known]

    def call(
        self,
        server: str,
        tool: str,
        input: Mapping[str, Any],
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Call a tool and return its result, a dict of JSON values.

        It is an effect of kind `tool`: a retry of the step gets the recorded result, and the same call twice in a step
        is made once. input: what the model chose, checked against the tool's schema. context: what the caller knows and
        the model must not choose, such as the chat. timeout: seconds, by default the tool's own (30).

        Only pipeline handlers may call whose plugin's manifest lists the permission `mcp`, in a run that has passed L1:
        an earlier step has set `meta["passed_l1"] = True`. Else `ToolPermissionError`. Raises `ToolError` for a call
        that gives no result, with `server`, `tool` and `reason`, `PayloadError` for a context that is no JSON object,
        and `FlowError` outside of handlers and on an event loop, which it would hold up.
        """
        step = required("lumia.system.mcp.call()")
        _refuse_on_loop(step)
        _check_allowed(step, server, tool)
        if timeout is not None and (not is_seconds(timeout) or not timeout):
            raise PayloadError(f"{step.step.handler} calls a tool: timeout is seconds above 0, got {timeout!r}")
        known, why = _object(context or {})
        if why:
            raise PayloadError(f"{step.step.handler} calls a tool: its context is a dict of JSON values; {why}")
        given, why = _object(input)
        if why:
            raise ToolError(server, tool, f"the input does not fit: a dict of JSON values is wanted; {why}")
        if not (is_name(server) and is_name(tool)):
            raise ToolError(server, tool, "there is no tool of such a name")
        from lumia.effects import effect

        key = f"tool {server}.{tool} {_digest(given, known)}"
        try:
            result: dict[str, Any] = effect(key, _call, server, tool, given, known, timeout, kind="tool")
        except ToolError as error:
            raise ToolError(server, tool, _reason(step, server, tool, error)) from error.__cause__
        return result

    def register(
        self, server_name: str, command: str, args: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> NoReturn:
        """Raise `ToolError`: servers outside of the bot can't be used yet."""
        raise ToolError(
            server_name, "",
            f"servers outside of the bot ({command}) are not supported yet, they come with a later release; offer the "
            "tool from a plugin by @lumia.mcp.tool(server, name), see docs/mcp.md",
        )  # fmt: skip


def _servers() -> Mapping[str, ToolServer]:
    from lumia import runtime

    return runtime.current().tool_servers


def _refuse_on_loop(step: StepContext) -> None:
    import asyncio  # takes longer to import than all of `lumia`

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise FlowError(
        f"{step.step.handler}: lumia.system.mcp.call() waits for the tool and would hold up the event loop; write "
        "`await asyncio.to_thread(lumia.system.mcp.call, server, tool, input)`"
    )


def _check_allowed(step: StepContext, server: str, tool: str) -> None:
    handler = step.step.handler
    if step.step.kind != "pipe":
        why = f"{handler} is a {step.step.kind}; tools are called in pipelines, where a run passes L1 first"
    elif PERMISSION not in _permissions(step):
        why = f'{handler} may not call tools: add "permissions": ["{PERMISSION}"] to the manifest of its plugin'
    elif not _has_passed(step):
        why = (
            f"{handler} calls a tool in a run that has not passed L1: a step before it has to set "
            f'content.meta["{PASSED_L1}"] = True and go on with next()'
        )
    else:
        return
    raise ToolPermissionError(server, tool, why)


def _permissions(step: StepContext) -> Sequence[str]:
    from lumia.manifest import underscored

    plugins = step.runtime.plugins.plugins.values() if step.runtime.plugins is not None else ()
    return next((one.manifest.permissions for one in plugins if underscored(one.name) == step.plugin), ())


def _has_passed(step: StepContext) -> bool:
    """Tell whether the Box the step began with says so: what a handler writes itself counts for those after it."""
    from lumia.box import Box

    wire = step.claim.box
    return bool(wire) and Box.load(wire, step.runtime.secret).meta.get(PASSED_L1) is True


def _object(value: Any) -> tuple[dict[str, Any], str]:
    """Return a copy of a JSON object, or why it is none."""
    try:
        found = json.loads(json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        return {}, str(error)
    return (found, "") if isinstance(found, dict) else ({}, f"got a {type(value).__name__}")


def _reason(step: StepContext, server: str, tool: str, error: ToolError) -> str:
    """Return why a call failed as the journal has it: it may go into a prompt, and a replay gives the same."""
    from lumia.redaction import cleaned_error

    told = clean(cleaned_error(described(error), step.runtime.redact))
    return told.removeprefix(f"{type(error).__name__}: ").removeprefix(ToolError.head(server, tool))


def _digest(given: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    text = json.dumps([given, context], sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _call(
    server: str, tool: str, given: Mapping[str, Any], context: Mapping[str, Any], timeout: float | None
) -> dict[str, Any]:
    from lumia.box import Box

    found = _servers().get(server)
    if found is None:
        known = ", ".join(_servers()) or "none"
        raise ToolError(server, tool, f"there is no server of this name (there are: {known}); see `lumia plugins`")
    result = found.call(tool, given, context=context, timeout=timeout)
    if not isinstance(result, dict):
        raise ToolError(server, tool, f"its result is a {type(result).__name__}; a tool returns a dict")
    try:
        box = Box.any(result)
    except BoxError as error:
        raise ToolError(server, tool, f"its result can't be recorded: {error}") from error
    if box.transport != "json":
        raise ToolError(server, tool, "its result is no JSON: only dicts with text keys, lists, texts, numbers, None")
    size = len(json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MAX_RESULT:
        raise ToolError(server, tool, f"its result is {size} bytes of JSON; {MAX_RESULT} are the most")
    return result
