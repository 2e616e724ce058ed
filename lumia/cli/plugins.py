"""`lumia plugins`: what is loaded, what is not and why; releasing a plugin from quarantine."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia.cli import output
from lumia.errors import LumiaError, PluginLoadError

if TYPE_CHECKING:
    from lumia.deployment import Deployments
    from lumia.loading import Mark

EPILOG = """\b
Example:
  lumia plugins
  lumia plugins --json | jq '.[] | select(.state == "failed")'
  lumia plugins release dice"""
UNUSABLE = ("failed", "quarantined")
COLUMNS = ("name", "place", "version", "state", "tools", "reason")


def mount(app: typer.Typer, group: typer.Typer) -> None:
    """Add the commands to the tree; group: an empty one that is made like all others."""
    group.info.invoke_without_command = True
    group.info.no_args_is_help = False
    group.info.epilog = EPILOG
    group.callback(invoke_without_command=True, no_args_is_help=False)(plugins)
    group.command("release")(release)
    app.add_typer(group, name="plugins")


def plugins(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False
) -> None:
    """List the plugins and their state (loaded, failed, quarantined or disabled), and the tools they offer.

    Imports each plugin from its files without starting it, in a process of its own, so it needs no running bot. A
    failure names file and line; then the exit code is 1.
    """
    if context.invoked_subcommand is not None:
        return
    rows = listed()
    if as_json:
        output.data(rows)
    else:
        shown = [{**row, "tools": ", ".join(row["tools"])} for row in rows]
        output.table(COLUMNS, [[row[column] for column in COLUMNS] for row in shown])
        for line in deployment():
            output.text(line)
    if any(row["state"] in UNUSABLE for row in rows):
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
    """Return one dict per plugin folder; `reason` says for a failed one what happened at which file and line.

    They are imported in a process of its own, which a plugin may end. Raises `LumiaError` when the bot can't be opened.
    """
    from lumia.config import ConfigStore
    from lumia.discovery import discover
    from lumia.paths import base, find_root
    from lumia.quarantine import STAGE as QUARANTINE

    root = find_root()
    settings = ConfigStore(root).core.plugins
    looked = _looked(root, settings.import_limit)
    known, failed = looked["versions"], looked["failed"]
    rows = []
    for found in discover(base(), root, tuple(settings.disabled)):
        stage, reason = failed.get(found.name, ("", str(found.error or "")))
        state = "disabled" if found.disabled else "failed" if found.error or found.name not in known else "loaded"
        if state == "failed" and stage == QUARANTINE:
            state = "quarantined"
        version = known.get(found.name, "")
        offered = sorted(tool for plugin, tool in looked["tools"] if plugin == found.name)
        values = (found.name, found.where, version, state, offered, reason if state in UNUSABLE else "")
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _looked(root: Path, limit: float) -> dict[str, Any]:
    from lumia import probing

    def waits(mark: Mark) -> None:
        output.note(f"plugin {mark.plugin} {mark.what} …")

    done = probing.look(root, probing.python("lumia.cli.looking"), limit=limit, on_wait=waits)
    sys.stderr.write(done.stderr)
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise PluginLoadError(
            f"the process that looked at the plugins ended: {probing.ending(done.returncode)}"
        ) from None
    if "error" in found:
        raise LumiaError(found["error"])
    return found


def release(name: Annotated[str, typer.Argument(help="The plugin, see `lumia plugins`.", metavar="NAME")]) -> None:
    """Load a quarantined plugin again.

    A version that ended the processes that loaded it is left out, so that the bot starts without it. Release it when
    what it needs has been mended; another version is loaded without that. Workers take it by themselves, other
    processes when they are started anew.

    \b
    Example:
      lumia plugins release dice
    """
    from lumia import quarantine
    from lumia.discovery import discover, unknown_names
    from lumia.manifest import hyphenated
    from lumia.paths import base, find_root

    root, plugin = find_root(), hyphenated(name)
    if quarantine.release(root, plugin):
        output.text(f"{plugin} is loaded again, by workers within seconds and by a gateway when it is restarted")
        return
    if unknown := unknown_names([plugin], discover(base(), root)):
        raise PluginLoadError(unknown[0])
    output.note(f"nothing to do: {plugin} is not quarantined in {root}")
