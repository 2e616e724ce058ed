"""`pkg list`, `files` and `outdated`: what is installed (spec §13.2). They need no registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lumia.cli import output
from lumia.cli.pkg.opened import opened
from lumia.cli.pkg.options import Json
from lumia.errors import LumiaError
from lumia.manifest import hyphenated

COLUMNS = ("name", "version", "commit", "status", "source")
SHOWN = ("name", "version", "status", "source")


Chosen = Annotated[list[str] | None, typer.Argument(metavar="NAME", show_default=False)]


def list_installed(
    names: Chosen = None,
    as_json: Json = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also what pkg did not install, and what comes with Lumia.")
    ] = False,
) -> None:
    """List installed plugins, or those named: version, status and source: `pkg -Q`.

    The status is loaded, installed, disabled or failed.
    `loaded` is what a running bot has; without one, what can be loaded is `installed`. Why one failed is on stderr.

    \b
    Example:
      pkg -Q
      pkg -Q weather
      pkg -Q --json | jq -r '.[] | select(.status == "failed") | .name'
    """
    from lumia.pkg.status import rows

    bot = opened()
    found = rows(bot.root, lambda: _running(bot.root), everything=everything or bool(names))
    if names:
        chosen = set(_known(names, {row.name for row in found}))
        found = [row for row in found if row.name in chosen]
    if as_json:
        output.data([{column: asdict(row)[column] for column in COLUMNS} for row in found])
        return
    if found:
        output.table([column.upper() for column in SHOWN], [[asdict(row)[column] for column in SHOWN] for row in found])
    else:
        output.note("nothing is installed; `pkg -Ss WORD` finds plugins, `pkg -Q --all` shows what else there is")
    for row in found:
        if row.status == "failed":
            output.warn(f"{row.name}: {row.reason}")


def _running(root: Path) -> Collection[str] | None:
    """Return the plugins that the bot's live processes have published, None when none is running."""
    from lumia.config import ConfigStore
    from lumia.opening import connect, limits_of

    try:
        config = ConfigStore(root)
        transport = connect(config.core.lumia.backend, root, limits_of(config), config)
    except LumiaError:
        return None
    try:
        table = transport.routes() if transport.deployments().members() else None
        return table.plugins.keys() if table is not None else None
    except LumiaError:
        return None
    finally:
        transport.close()


def _known(names: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the names as plugins are called; raises `PlanError` for one that nothing here is called."""
    from lumia.errors import PlanError
    from lumia.pkg.planning import did_you_mean

    found = [hyphenated(name) for name in names]
    for name in found:
        if name not in known:
            raise PlanError(f"{name} is not installed; {did_you_mean(name, known)}")
    return found


def files(names: Chosen = None, as_json: Json = False) -> None:
    """List the files in plugins' folders, one a line, seen from the bot root; without a NAME of all: `pkg -Ql`.

    \b
    Example:
      pkg -Ql weather
      pkg -Ql weather | xargs wc -l
    """
    from lumia import paths
    from lumia.discovery import discover
    from lumia.pkg import lockfile, status

    bot = opened()
    known = {one.name: one.folder for one in discover(paths.base(), bot.root)}
    chosen = _known(names, known) if names else sorted(lockfile.read(bot.root).plugins.keys() & known)
    listed = [_shown(path, bot.root) for name in chosen for path in status.files(known[name])]
    if as_json:
        output.data(listed)
        return
    for line in listed:
        output.text(line)


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def outdated(as_json: Json = False) -> None:
    """List plugins of which there is a newer version: `pkg -Qu`. `pkg -U` installs it.

    \b
    Example:
      pkg -Qu
    """
    from lumia.cli.pkg.watching import Watch
    from lumia.errors import PkgError
    from lumia.pkg import lockfile, requests
    from lumia.pkg.versions import version_of

    bot, watch = opened(), Watch()
    found = []
    with watch.shown():
        sources = bot.sources(watch)
        for name, locked in lockfile.read(bot.root).plugins.items():
            try:
                latest = sources.of(locked).latest
            except PkgError as error:
                bot.warn(f"{name}: {error}")
                continue
            now = version_of(locked.version)
            if latest is not None and now is not None and latest.version > now:
                found.append((name, locked.version, str(latest.version), requests.public_url(locked.url)))
    columns = ("name", "version", "latest", "source")
    if as_json:
        output.data([dict(zip(columns, row, strict=True)) for row in found])
    elif found:
        output.table([column.upper() for column in columns], found)
    else:
        output.note("everything is at its latest version")
