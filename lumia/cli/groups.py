"""How commands and groups of commands look, and commands that parse their own arguments."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from lumia import __version__
from lumia.cli import output


def group(help: str, epilog: str = "") -> typer.Typer:
    """Return an empty group of commands in the style of the house."""
    return typer.Typer(
        help=help,
        epilog=epilog or None,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def program(name: str, help: str, epilog: str = "") -> typer.Typer:
    """Return the empty group that a program of its own is: it has `--version`."""
    app = group(help, epilog)

    def shown(asked: bool) -> None:
        if asked:
            output.text(f"{name} {__version__}")
            raise typer.Exit

    # Not in `Annotated`: annotations are read by their text, which doesn't find what is made in here.
    asked = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True, callback=shown)

    def options(version: bool = asked) -> None:
        """Take the options before the command."""

    app.callback(help=help)(options)
    return app


class Verbatim(TyperCommand):
    """A command that hands everything after its name on, unparsed: `--help` and `--` included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep `args` as they are."""
        ctx.args = list(args)
        return []
