"""Starts that are accepted before they are planned: the text the inbox holds of one, and the requests it becomes.

The text is one JSON object: f flow, i id, k lane, p priority where it isn't the usual one, b the Box's wire text, a the
events beside it as [id, wire text]. tasks/scripts/start.lua writes it, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from lumia.marks import NORMAL
from lumia.ports import Kept, RunRequest
from lumia.system import new_id

if TYPE_CHECKING:
    from lumia.routes import Plan
    from lumia.runtime import Runtime, Table

__all__ = ["Kept", "beside", "head", "read", "twins", "write"]


def write(flow: str, id: str, key: str, priority: int | None, box: str, also: Sequence[tuple[str, str]] = ()) -> str:
    """Return the text of a start. box: wire text. also: (event id, wire text) of the events beside it."""
    found: dict[str, Any] = {"f": flow, "i": id, "k": key, "b": box}
    if priority not in (None, NORMAL):
        found["p"] = priority
    if also:
        found["a"] = also
    return to_json(found).decode()


def head(text: str) -> tuple[str, str, str, str, int]:
    """Return flow, id, lane, the Box's wire text and priority of a start; raises `ValueError` for any other text."""
    return _head(_parsed(text))


def read(run_id: str, text: str, bot: Runtime, table: Table, seconds: float) -> list[RunRequest]:
    """Return what a transport is asked for, planned with `table`. seconds: how long the start was kept."""
    found = _parsed(text)
    flow, id, key, wire, priority = _head(found)
    plan = table.index.plan(flow, id)
    if flow == "pipe" and not plan.steps:
        bot.log.warning("start(%r): nothing handles this pipeline; the run ends at once", id)
    first = _request(run_id, flow, id, plan, wire, priority, key=key, kept=round(seconds, 3))
    return [first, *twins(table, priority, _beside(found))]


def beside(text: str) -> tuple[tuple[str, str], ...]:
    """Return the events beside a start as (id, wire text); raises `ValueError` where they can't be read."""
    return _beside(_parsed(text))


def twins(table: Table, priority: int, events: Sequence[tuple[str, str]]) -> list[RunRequest]:
    """Return the requests of the events beside a start, planned with `table`."""
    return [_request(new_id(), "event", id, table.index.plan("event", id), wire, priority) for id, wire in events]


def _parsed(text: str) -> dict[str, Any]:
    found: Any = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in "fikb"):
        raise ValueError("this text of the inbox is no start; was it written by another version?")
    return found


def _head(found: dict[str, Any]) -> tuple[str, str, str, str, int]:
    return found["f"], found["i"], found["k"], found["b"], int(found.get("p", NORMAL))


def _beside(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    rows: Any = found.get("a", [])
    if not isinstance(rows, list) or not all(map(_is_event, rows)):
        raise ValueError("the events beside this start of the inbox can't be read; was it written by another version?")
    return tuple((id, wire) for id, wire in rows)


def _is_event(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(isinstance(one, str) for one in row)


def _request(
    run_id: str, flow: str, id: str, plan: Plan, wire: str, priority: int, *, key: str = "", kept: float = 0.0
) -> RunRequest:
    return RunRequest(
        run_id, flow, id, plan, wire, key=key, priority=priority, root_id=run_id, attached=False, kept=kept
    )
