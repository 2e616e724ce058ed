"""The tree of commands: the core's own, and a thin stand-in for each contributed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer

from lumia.cli import adapters, output, plugins, registry
from lumia.cli.contributed import Contributed, commands
from lumia.cli.groups import Verbatim, group, program
from lumia.cli.handlers import handlers
from lumia.cli.init import init
from lumia.cli.start import start

ABOUT = " *"
"""Ends a listed name that stands for a group of commands: its text tells what the group is for."""
CORE: dict[str, Callable[..., None]] = {"handlers": handlers, "init": init, "start": start}
GROUPS = {"adapters", "plugins", "registry"}
"""The core's groups of commands."""
PKG = "pkg"
"""The command `pkg`, which also stands by itself."""
EPILOG = """\b
Example:
  lumia init mybot
  cd mybot && lumia up

Every command has --help with an example. Exit codes: 0 ok, 1 failed, 2 wrong usage."""


def build(args: Sequence[str]) -> typer.Typer:
    """Return the app with every command of this bot root.

    What is wrong with contributed commands is told on stderr when `args` name none, for there one may be missed.
    """
    app = program("lumia", "Build and run LLM chat bots as durable event functions.", EPILOG)
    for name, function in CORE.items():
        app.command(name)(function)
    app.command(PKG, cls=Verbatim, help="Install, upgrade, remove and find plugins; the command pkg.")(_pkg)
    adapters.mount(app, group("List the bot's accounts on the platforms, test them, add one."))
    plugins.mount(app, group("List the plugins, their state and their tools; release one from quarantine."))
    registry.mount(app, group("Run a registry of plugins of your own."))
    listed, problems = commands()
    contributed = [command for command in listed if not command.name.endswith(ABOUT)]
    groups = _Groups({one.name.removesuffix(ABOUT): one.help for one in listed if one.name.endswith(ABOUT)})
    for command in contributed:
        problems += _mount(app, groups, command)
    known = {*CORE, *GROUPS, PKG, *(command.name.partition(" ")[0] for command in contributed)}
    if not args or args[0] not in known:
        for problem in problems:
            output.warn(problem)
    return app


def _pkg(ctx: typer.Context) -> None:
    from lumia.cli.pkg import run

    run(ctx.args, "lumia pkg")


@dataclass
class _Groups:
    """The groups of commands, by path.

    about: what the lists say of them: a line of help, then `Example: ` and lines of examples.
    """

    about: dict[str, str]
    made: dict[str, typer.Typer] = field(default_factory=dict)

    def make(self, path: str, first: str) -> typer.Typer:
        """Make the group at `path`; first: a command in it, for its example when nothing is said of it."""
        default = f"Commands that begin with `lumia {path}`. Example: lumia {path} {first} --help"
        text, _, examples = self.about.get(path, default).partition(" Example: ")
        lines = "\n".join(f"  {line}" for line in examples.splitlines())
        self.made[path] = group(text, epilog=f"\b\nExample:\n{lines}" if lines else "")
        return self.made[path]


def _mount(app: typer.Typer, groups: _Groups, command: Contributed) -> list[str]:
    """Mount `command` and return what hinders it."""
    parent, _, leaf = command.name.rpartition(" ")
    taken = (parent or leaf) in (*CORE, *GROUPS, PKG)
    if taken:
        return [f"{command.source} offers `lumia {command.name}`, which is a command of the core; the core's stays"]
    above = _parent(app, groups, parent, leaf)
    above.command(leaf, cls=Verbatim, help=command.help)(_stand_in(command))
    return []


def _parent(app: typer.Typer, groups: _Groups, path: str, first: str) -> typer.Typer:
    """Return the group at `path`, made when it is new; first: a command in it, for its example."""
    if not path:
        return app
    if path not in groups.made:
        above, _, leaf = path.rpartition(" ")
        _parent(app, groups, above, leaf).add_typer(groups.make(path, first), name=leaf)
    return groups.made[path]


def _stand_in(command: Contributed) -> Any:
    def run(ctx: typer.Context) -> None:
        from lumia.cli.signature import as_typer

        with command.loaded() as fn:
            app = group("")
            app.command(command.name)(as_typer(fn))
            app(args=ctx.args, prog_name=ctx.command_path)

    return run
