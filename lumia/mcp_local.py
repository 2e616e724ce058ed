"""Tools of plugins as servers within this process: the schema from a function's signature, its input checked by it."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from lumia.errors import HeldError, RegistrationError, StaleClaimError, ToolError
from lumia.journal import described
from lumia.marks import Mark, is_seconds
from lumia.mcp import CONTEXT, Tool, is_name

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lumia.plugin import Handler

MAX_RUNNING = 32
"""Calls of one tool that may run in this process at a time: those that hang take no more threads than that."""
_THROUGH = (StaleClaimError, HeldError, ToolError)
"""What is told as it is: the first two end the step that calls."""


@dataclass(frozen=True)
class _Signature:
    """What a function takes. names: its parameters, in the order of the model's fields. context: it has that, too."""

    model: type[BaseModel]
    names: tuple[str, ...]
    context: bool

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input."""
        from pydantic.json_schema import GenerateJsonSchema

        class Untitled(GenerateJsonSchema):
            def field_title_should_be_set(self, schema: Any) -> bool:
                return False

        found = self.model.model_json_schema(schema_generator=Untitled)
        return {name: value for name, value in found.items() if name != "title"}

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for an input; raises `ValueError` naming what doesn't fit."""
        from pydantic import ValidationError

        try:
            found = self.model.model_validate_json(json.dumps(given, allow_nan=False), strict=True)
        except ValidationError as error:
            told = error.errors(include_url=False, include_context=False, include_input=False)
            raise ValueError("; ".join(_problem(one) for one in told)) from None
        fields = type(found).model_fields
        return {
            name: getattr(found, field) for name, field in zip(self.names, fields, strict=True)
            if field in found.model_fields_set
        }  # fmt: skip


def _problem(details: Any) -> str:
    where = ".".join(map(str, details["loc"]))
    return f"{where}: {details['msg']}" if where else str(details["msg"])


def signature(fn: Callable[..., Any], where: str) -> _Signature:
    """Return what `fn` takes; raises `RegistrationError` naming `where` for a signature that gives no schema."""
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    kinds = inspect.Parameter
    fields: dict[str, Any] = {}
    names: list[str] = []
    try:
        hints = get_type_hints(fn, include_extras=True)
    except Exception as error:
        raise RegistrationError(f"{where}: its types can't be read: {described(error)}") from error
    parameters = inspect.signature(fn).parameters
    for name, parameter in parameters.items():
        if name == CONTEXT:
            continue
        if parameter.kind not in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY) or name not in hints:
            raise RegistrationError(f"{where}: parameter {name!r} needs a name and a type, as in `city: str`")
        default = ... if parameter.default is kinds.empty else parameter.default
        # A field of its own name could hide one of the model's methods.
        fields[f"field_{len(names)}"] = (hints[name], Field(default, alias=name))
        names.append(name)
    try:
        model: type[BaseModel] = create_model("Input", __config__=ConfigDict(extra="forbid"), **fields)
        found = _Signature(model, tuple(names), CONTEXT in parameters)
        found.schema()
    except PydanticUserError as error:
        raise RegistrationError(f"{where}: no JSON Schema can be made of its types: {error}") from error
    return found


def verify(mark: Mark, fn: Callable[..., Any], where: str) -> None:
    """Raise `RegistrationError` unless `fn` can be the tool that `mark` promises."""
    for what in ("server", "tool"):
        if not is_name(mark.options[what]):
            raise RegistrationError(
                f"{where}: the {what}'s name is at most 128 of A-Z, a-z, 0-9, '.', '_' and '-', got "
                f"{mark.options[what]!r}"
            )
    if not _description(mark, fn):
        raise RegistrationError(f"{where} needs a description or a docstring: the planner chooses by it")
    timeout = mark.options["timeout"]
    if not is_seconds(timeout) or not timeout:
        raise RegistrationError(f"{where}: timeout is seconds above 0, got {timeout!r}")
    signature(fn, where)


def _description(mark: Mark, fn: Callable[..., Any]) -> str:
    return str(mark.options["description"] or inspect.getdoc(fn) or "").strip()


class _Local:
    """One marked function as a tool."""

    def __init__(self, handler: Handler) -> None:
        options = handler.mark.options
        self.fn, self._signature = handler.fn, signature(handler.fn, handler.name)
        self.timeout = float(options["timeout"])
        self.tool = Tool(
            options["server"], options["tool"], _description(handler.mark, handler.fn), self._signature.schema()
        )
        self._running = threading.BoundedSemaphore(MAX_RUNNING)

    def arguments(self, given: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function is called with; raises `ValueError` for an input that doesn't fit."""
        checked = self._signature.checked(given)
        return {**checked, CONTEXT: dict(context)} if self._signature.context else checked

    def run(self, arguments: Mapping[str, Any], seconds: float) -> Any:
        """Call the function; raises `ToolError` when it is not done in time, else what it raises."""
        if not self._running.acquire(blocking=False):
            raise self._failed(f"{MAX_RUNNING} calls of it are still running in this process")
        if inspect.iscoroutinefunction(self.fn):
            try:
                return self._awaited(arguments, seconds)
            finally:
                self._running.release()
        return self._in_thread(arguments, seconds)

    def _awaited(self, arguments: Mapping[str, Any], seconds: float) -> Any:
        from lumia import runtime

        async def limited() -> Any:
            try:
                async with asyncio.timeout(seconds) as limit:
                    return await self.fn(**arguments)
            except TimeoutError:
                if limit.expired():
                    raise self._late(seconds) from None
                raise

        return runtime.current().run_async(limited(), seconds + 1.0, str(self.tool))

    def _in_thread(self, arguments: Mapping[str, Any], seconds: float) -> Any:
        """Call a plain function; one that hangs keeps its thread, and nobody waits for it."""
        done: Future[Any] = Future()
        context = copy_context()

        def work() -> None:
            try:
                done.set_result(context.run(self.fn, **arguments))
            except BaseException as error:
                done.set_exception(error)
            finally:
                self._running.release()

        threading.Thread(target=work, name=f"lumia-tool-{self.tool}", daemon=True).start()
        try:
            return done.result(seconds)
        except TimeoutError:
            if done.done():
                raise
            raise self._late(seconds) from None

    def _late(self, seconds: float) -> ToolError:
        return self._failed(f"not done within {seconds:g} s")

    def _failed(self, reason: str) -> ToolError:
        return ToolError(self.tool.server, self.tool.name, reason)


class LocalServer:
    """Implements `lumia.mcp.ToolServer` for the tools that plugins offer under one server name."""

    def __init__(self, name: str, handlers: Iterable[Handler]) -> None:
        self.name = name
        found = map(_Local, handlers)
        self._tools = {one.tool.name: one for one in sorted(found, key=lambda one: one.tool.name)}

    def tools(self) -> Sequence[Tool]:
        """Return its tools, by name."""
        return [one.tool for one in self._tools.values()]

    def call(self, tool: str, input: Mapping[str, Any], *, context: Mapping[str, Any], timeout: float | None) -> Any:
        """Check the input, call the function, and return what it gives."""
        found = self._tools.get(tool)
        if found is None:
            raise ToolError(self.name, tool, f"there is no such tool; there are {', '.join(self._tools)}")
        seconds = found.timeout if timeout is None else timeout
        try:
            arguments = found.arguments(input, context)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolError(self.name, tool, f"the input does not fit: {error}") from None
        try:
            return found.run(arguments, seconds)
        except _THROUGH:
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            raise ToolError(self.name, tool, described(error)) from error


def servers(handlers: Iterable[Handler]) -> dict[str, LocalServer]:
    """Return the servers of these marked functions, by name."""
    found: dict[str, list[Handler]] = {}
    for handler in handlers:
        found.setdefault(handler.mark.options["server"], []).append(handler)
    return {name: LocalServer(name, found[name]) for name in sorted(found)}
