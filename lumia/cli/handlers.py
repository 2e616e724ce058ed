"""`lumia handlers`: the routes of this bot."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output

if TYPE_CHECKING:
    from lumia.routes import Route

STAGES = {"interceptor": 0, "chain": 1}
"""Stages before the last one of an event's delivery (spec §4.4)."""
COLUMNS = ("kind", "id", "priv", "handler", "queue", "source")


def handlers(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False) -> None:
    """List what handles which id, in which order and on which queue.

    The handlers of one id stand in the order they run: interceptors, the chain, consumers, each from high to low priv.

    Imports every plugin from its files without starting it, so it needs no running bot. A plugin that can't be loaded
    is named on stderr.

    \b
    Example:
      lumia handlers
      lumia handlers --json | jq '.[] | select(.id == "msg")'
    """
    from lumia.cli.opened import read_from_files

    with redirect_stdout(sys.stderr), read_from_files() as (_, table):
        rows = [{column: getattr(route, column) for column in COLUMNS} for route in in_order(table.routes)]
    if as_json:
        output.data(rows)
    else:
        output.table(COLUMNS, [list(row.values()) for row in rows])


def in_order(routes: Iterable[Route]) -> list[Route]:
    """Return pipelines, then events, by id; those of one id in the order they run."""
    return sorted(routes, key=lambda one: (one.flow != "pipe", one.id, STAGES.get(one.kind, 2), -one.priv, one.order))
