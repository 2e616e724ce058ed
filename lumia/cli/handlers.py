"""`lumia handlers`: the routes of this bot."""

from __future__ import annotations

from typing import Annotated

import typer

from lumia.cli import output

COLUMNS = ("kind", "id", "priv", "handler", "queue", "source")


def handlers(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False) -> None:
    """List what handles which id, in which order and on which queue.

    Imports every plugin from its files without starting it, so it needs no running bot. A plugin that can't be loaded
    is named on stderr.

    \b
    Example:
      lumia handlers
      lumia handlers --json | jq '.[] | select(.id == "msg")'
    """
    from lumia.cli.opened import read_from_files

    with read_from_files() as (_, table):
        rows = [{column: getattr(route, column) for column in COLUMNS} for route in table.routes]
    if as_json:
        output.data(rows)
    else:
        output.table(COLUMNS, [list(row.values()) for row in rows])
