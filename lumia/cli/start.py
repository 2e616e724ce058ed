"""`lumia start`: a pipeline, or an event, from the command line."""

from __future__ import annotations

import difflib
import json
import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.errors import BoxError, BoxTooLargeError, LumiaError, RunTimeoutError
from lumia.marks import MAX_NAME, is_name

if TYPE_CHECKING:
    from lumia.box import Box
    from lumia.routes import RouteIndex
    from lumia.runs import RunResult

NOUNS = {"pipe": "a pipeline", "event": "an event"}
GOOD = ("done", "stopped")
"""Outcomes that count as success; `blocked`, `failed` and `cancelled` end the command with 1."""


def start(
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the pipeline, or with --event of the event.")],
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="Content as JSON, null without it; - reads stdin.", show_default=False)
    ] = "null",
    event: Annotated[bool, typer.Option("--event", help="Start an event instead of a pipeline.")] = False,
    key: Annotated[str, typer.Option(help="Lane: runs of one key are served in order, one at a time.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run and all it caused have ended.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long --wait waits.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start a run and print its id, or with --wait its replies.

    Exit code 1: nothing handles the id, the run ended other than done or stopped, or not in time.

    \b
    Example:
      lumia start orders '{"item": 3}' --key shop-1 --wait --json
    """
    import lumia
    from lumia.cli.opened import opened

    check_options(timeout, key)
    content = boxed(parse_body(sys.stdin.buffer.read() if body == "-" else body))
    with opened() as bot:
        check_known(bot.routes, "event" if event else "pipe", id)
        flow = lumia.event if event else lumia.pipe
        run_id = flow.start(id=id, content=content, key=key or None)
        if wait:
            show(ended(run_id, timeout, as_json), as_json)
        elif as_json:
            output.data({"run_id": run_id})
        else:
            output.text(run_id)


def check_options(timeout: float, key: str) -> None:
    """Raise `typer.BadParameter` for a time that is no time, or a key that can't name a lane."""
    if not 0 < timeout < math.inf:
        raise typer.BadParameter(f"{timeout:g} is no number of seconds above 0", param_hint="--timeout")
    if key and not is_name(key):
        raise typer.BadParameter(f"use 1 to {MAX_NAME} printable characters", param_hint="--key")


def ended(run_id: str, timeout: float, as_json: bool) -> RunResult:
    """Wait for the run and return its result; one that has not ended is printed as far as it is known.

    Raises `RunTimeoutError` then.
    """
    import lumia

    try:
        return lumia.runs.wait(run_id, timeout)
    except RunTimeoutError:
        so_far = lumia.runs.result(run_id)
        if so_far is not None and so_far.outcome is not None:
            return so_far  # it ended in this very moment
        if so_far is not None and as_json:
            output.data(so_far.as_dict())
        raise


def parse_body(text: str | bytes) -> Any:
    """Return the JSON value of `text`; anything else is a usage error that names the position."""
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise _unusable(f"not JSON at {where}: {error.msg}; text needs quotes of its own: '\"hello\"'") from None
    except UnicodeDecodeError as error:
        raise _unusable(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise _unusable("not usable JSON: nested too deeply; a few hundred levels are fine") from None
    except ValueError as error:
        raise _unusable(f"not JSON: {error}") from None


def boxed(value: Any) -> Box[Any]:
    """Return `value` in a Box; one that can't be is a usage error, one over the limit raises `BoxTooLargeError`."""
    from lumia import Box

    try:
        return Box.any(value)
    except BoxTooLargeError:
        raise
    except BoxError as error:
        raise _unusable(str(error)) from None


def _unusable(why: str) -> typer.BadParameter:
    return typer.BadParameter(why, param_hint="BODY")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value; use null")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{_short(text)} is too large for a number; write it as text")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{_short(text)} is too long a number ({len(text)} digits); write it as text") from None


def _short(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:20]}…"


def check_known(routes: RouteIndex, flow: str, id: str) -> None:
    """Raise `LumiaError` when no handler would receive `id`, naming the closest ids that have one."""
    if routes.matching(flow, id):
        return
    other, hint = ("event", "add --event") if flow == "pipe" else ("pipe", "leave --event out")
    if routes.matching(other, id):
        raise LumiaError(f"{id!r} is handled as {NOUNS[other]}, not as {NOUNS[flow]}: {hint}")
    near = closest(id, (route.id for route in routes.routes if route.flow == flow))
    known = f"the closest: {', '.join(near)}" if near else f"no plugin handles {NOUNS[flow]} at all"
    raise LumiaError(f"nothing handles {id!r} as {NOUNS[flow]}; {known}; `lumia handlers` lists all ids")


def closest(id: str, ids: Iterable[str]) -> list[str]:
    """Return up to three of `ids` that resemble `id` most, the best first."""
    return difflib.get_close_matches(id, sorted(set(ids)), n=3, cutoff=0.0)


def show(result: RunResult, as_json: bool) -> None:
    """Print a run's result and raise `typer.Exit(1)` unless it is done or stopped."""
    if as_json:
        output.data(result.as_dict())
    else:
        for reply in result.replies:
            output.text(reply)
        _show_steps(result)
    if result.outcome not in GOOD:
        raise typer.Exit(1)


def _show_steps(result: RunResult) -> None:
    for step in result.steps:
        reason = f" ({step.reason})" if step.reason else ""
        output.note(f"{step.handler}: {step.outcome}{reason}, {step.ms:.1f} ms", style="dim")
    reason = f" ({result.reason})" if result.reason else ""
    output.note(f"run {result.run_id}: {result.outcome}{reason}, {result.ms:.1f} ms", style="bold")
