"""The tree of commands: the core's own, and a thin stand-in for each contributed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from lumia import __version__
from lumia.cli import output
from lumia.cli.contributed import Contributed, commands
from lumia.cli.handlers import handlers
from lumia.cli.init import init
from lumia.cli.plugins import plugins
from lumia.cli.start import start

CORE: dict[str, Callable[..., None]] = {"handlers": handlers, "init": init, "plugins": plugins, "start": start}
EPILOG = """\b
Example:
  lumia init mybot
  cd mybot && lumia up

Every command has --help with an example. Exit codes: 0 ok, 1 failed, 2 wrong usage."""


class Verbatim(TyperCommand):
    """A command that hands everything after its name on, unparsed: `--help` and `--` included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep `args` as they are."""
        ctx.args = list(args)
        return []


def build(args: Sequence[str]) -> typer.Typer:
    """Return the app with every command of this bot root.

    What is wrong with contributed commands is told on stderr when `args` name none, for there one may be missed.
    """
    app = _group("Build and run LLM chat bots as durable event functions.", epilog=EPILOG)
    app.callback()(_global_options)
    for name, function in CORE.items():
        app.command(name)(function)
    contributed, problems = commands()
    groups: dict[str, typer.Typer] = {}
    for command in contributed:
        problems += _mount(app, groups, command)
    known = {*CORE, *(command.name.partition(" ")[0] for command in contributed)}
    if not args or args[0] not in known:
        for problem in problems:
            output.warn(problem)
    return app


def _group(help: str, epilog: str = "") -> typer.Typer:
    return typer.Typer(
        help=help,
        epilog=epilog or None,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def _print_version(asked: bool) -> None:
    if asked:
        output.text(f"lumia {__version__}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Build and run LLM chat bots as durable event functions."""


def _mount(app: typer.Typer, groups: dict[str, typer.Typer], command: Contributed) -> list[str]:
    """Mount `command` and return what hinders it."""
    parent, _, leaf = command.name.rpartition(" ")
    taken = (parent or leaf) in CORE
    if taken:
        return [f"{command.source} offers `lumia {command.name}`, which is a command of the core; the core's stays"]
    group = _parent(app, groups, parent, leaf)
    group.command(leaf, cls=Verbatim, help=command.help)(_stand_in(command))
    return []


def _parent(app: typer.Typer, groups: dict[str, typer.Typer], path: str, first: str) -> typer.Typer:
    """Return the group at `path`, made when it is new; first: a command in it, for its example."""
    if not path:
        return app
    if path not in groups:
        above, _, leaf = path.rpartition(" ")
        example = f"\b\nExample:\n  lumia {path} {first} --help"
        groups[path] = _group(f"Commands that begin with `lumia {path}`.", epilog=example)
        _parent(app, groups, above, leaf).add_typer(groups[path], name=leaf)
    return groups[path]


def _stand_in(command: Contributed) -> Any:
    def run(ctx: typer.Context) -> None:
        from lumia.cli.signature import as_typer

        with command.loaded() as fn:
            app = _group("")
            app.command(command.name)(as_typer(fn))
            app(args=ctx.args, prog_name=ctx.command_path)

    return run
