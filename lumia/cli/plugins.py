"""`lumia plugins`: what is loaded, and what is not and why."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.errors import LumiaError

if TYPE_CHECKING:
    from lumia.deployment import Deployments

COLUMNS = ("name", "place", "version", "state", "tools", "reason")


def plugins(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False) -> None:
    """List the plugins and their state (loaded, failed or disabled), and the tools they offer.

    Imports each plugin from its files without starting it, so it needs no running bot. A failure names file and line;
    then the exit code is 1.

    \b
    Example:
      lumia plugins
      lumia plugins --json | jq '.[] | select(.state == "failed")'
    """
    rows = listed()
    if as_json:
        output.data(rows)
    else:
        shown = [{**row, "tools": ", ".join(row["tools"])} for row in rows]
        output.table(COLUMNS, [[row[column] for column in COLUMNS] for row in shown])
        for line in deployment():
            output.text(line)
    if any(row["state"] == "failed" for row in rows):
        raise typer.Exit(1)


def deployment() -> list[str]:
    """Return in sentences what the running bot's processes work with (docs/hot-reload.md); nothing where none runs."""
    from lumia.cli.opened import opened

    with output.quiet(), suppress(LumiaError), opened() as bot:
        return told(bot.transport.deployments())
    return []


def told(deployments: Deployments) -> list[str]:
    """Return the state of the newest deployment in sentences."""
    from lumia.pkg.text import plain

    standing, progress = deployments.look(), deployments.progress()
    if not standing.number:
        return []
    if progress is not None:
        count = len(progress.open) + len(progress.ready)
        waiting = ", ".join(progress.open) or "the decision"
        ready = f"{len(progress.ready)} of {count} processes are ready"
        return [f"deployment {progress.number} is being prepared: {ready}, waiting for {waiting}"]
    behind = [member.name for member in deployments.members() if member.active != standing.active]
    lines = [f"deployment {standing.active} is at work" + (f", but not yet in {', '.join(behind)}" if behind else "")]
    if standing.state == "rolled back":
        newest = next((one for one in deployments.decided() if one.number == standing.number), None)
        reasons = [f"  {process}: {plain(why, 500)}" for process, why in (newest.reasons if newest else ())]
        lines += [f"deployment {standing.number} was rolled back:", *reasons]
    return lines


def listed() -> list[dict[str, Any]]:
    """Return one dict per plugin folder; `reason` says for a failed one what happened at which file and line."""
    from lumia.cli.opened import read_from_files
    from lumia.config import ConfigStore
    from lumia.discovery import discover
    from lumia.mcp import KIND as TOOL
    from lumia.paths import base, find_root

    root = find_root()
    disabled = tuple(ConfigStore(root).core.plugins.disabled)
    with redirect_stdout(sys.stderr), output.quiet(), read_from_files() as (loaded, _):
        known = {name: plugin.version for name, plugin in loaded.plugins.items()}
        tools = [(handler.plugin, handler.mark.id) for handler in loaded.handlers(TOOL)]
        failed = {failure.name: failure for failure in loaded.failures}
    rows = []
    for found in discover(base(), root, disabled):
        failure = failed.get(found.name)
        state = "disabled" if found.disabled else "failed" if found.error or found.name not in known else "loaded"
        reason = str(failure or found.error or "") if state == "failed" else ""
        version = known.get(found.name, "")
        offered = sorted(tool for plugin, tool in tools if plugin == found.name)
        values = (found.name, found.where, version, state, offered, reason)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
