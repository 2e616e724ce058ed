"""How groups of commands look, and commands that parse their own arguments."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


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


class Verbatim(TyperCommand):
    """A command that hands everything after its name on, unparsed: `--help` and `--` included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep `args` as they are."""
        ctx.args = list(args)
        return []
