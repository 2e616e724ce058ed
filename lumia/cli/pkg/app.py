"""The tree of `pkg`'s commands. Each is imported when it is named, so a query never waits for what an upgrade needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from lumia.cli.groups import Verbatim, program
from lumia.errors import LumiaError

EPILOG = """\b
Short forms:
  pkg -S NAME[@TAG]…     install      pkg -Q             list
  pkg -R NAME…           remove       pkg -Ql NAME       files
  pkg -U [NAME…]         upgrade      pkg -Qu            outdated
  pkg -Ss [KEYWORD…]     search       pkg -Si NAME       info
  pkg -Sc                clean
\b
Example:
  pkg -S weather
  pkg -S https://example.org/weather.git@v1.2.0
  pkg -U --dry-run
\b
Every command has --help with an example. Exit codes: 0 ok, 1 failed, 2 wrong usage."""


@dataclass(frozen=True)
class Entry:
    """Where a command is: `module` in this package, the function (or, of a group, the app) in it, a line of help."""

    module: str
    name: str
    help: str


COMMANDS = {
    "install": Entry("change_commands", "install", "Install plugins, and what they need: -S."),
    "remove": Entry("change_commands", "remove", "Remove plugins; their settings stay: -R."),
    "upgrade": Entry("change_commands", "upgrade", "Upgrade plugins to their latest versions: -U."),
    "enable": Entry("change_commands", "enable", "Turn plugins on, also those that come with Lumia."),
    "disable": Entry("change_commands", "disable", "Turn plugins off; they stay installed."),
    "list": Entry("query_commands", "list_installed", "List installed plugins: -Q."),
    "files": Entry("query_commands", "files", "List the files of plugins: -Ql."),
    "outdated": Entry("query_commands", "outdated", "List plugins with a newer version: -Qu."),
    "search": Entry("registry_commands", "search", "Search the registry: -Ss."),
    "info": Entry("registry_commands", "info", "Show a plugin's manifest and versions: -Si."),
    "clean": Entry("registry_commands", "clean", "Empty the download cache: -Sc."),
    "log": Entry("history_commands", "log", "List the operations, the newest first."),
    "rollback": Entry("history_commands", "rollback", "Bring back what was installed before."),
    "freeze": Entry("history_commands", "freeze", "Print a lock of everything installed."),
    "sync": Entry("history_commands", "sync", "Install exactly what a lock names."),
    "verify": Entry("history_commands", "verify", "Compare plugins' files with what was installed."),
}
GROUPS = {
    "key": Entry("key", "key_app", "Make, show and exchange signing keys; trust or pin those of others."),
    "dev": Entry("dev", "dev_app", "Begin, try, check, pack, sign and publish a plugin."),
}


def build(args: Sequence[str], prog: str = "pkg") -> typer.Typer:
    """Return the app for `args`: the command they name is real, of the others there is only the line of help."""
    app = program("pkg", "Install, upgrade, remove and find plugins.", EPILOG)
    named = next((arg for arg in args if not arg.startswith("-")), None)
    for name, entry in COMMANDS.items():
        app.command(name, help=None if name == named else entry.help)(_loaded(entry) if name == named else _listed)
    for name, entry in GROUPS.items():
        app.command(name, cls=Verbatim, help=entry.help)(_handed_on(entry, f"{prog} {name}"))
    return app


def _listed() -> None:
    """Stand for a command in the list of all."""


def _loaded(entry: Entry) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(f"lumia.cli.pkg.{entry.module}"), entry.name)
    return found


def _handed_on(entry: Entry, prog: str) -> Callable[[typer.Context], None]:
    def run(ctx: typer.Context) -> None:
        try:
            app = _loaded(entry)
        except ModuleNotFoundError as error:
            raise LumiaError(f"`{prog}` can't be used: {error}") from error
        app(args=ctx.args, prog_name=prog)

    return run
