"""`pkg dev`: what the author of a plugin needs from the first file to the registry (spec §13.2, §14)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lumia.cli import output

dev_app = typer.Typer(
    help="Make a plugin: init, run, test, validate, pack, sign, publish.",
    epilog="\b\nExample:\n  pkg dev init dice\n  cd dice && pkg dev run --watch",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
"""The group `pkg dev`, mounted by `lumia.cli.pkg`."""


@dev_app.command("init")
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the plugin is called, like `dice`.")],
    folder: Annotated[Path | None, typer.Option("--dir", help="Where it is made; default: a folder NAME here.")] = None,
    description: Annotated[str, typer.Option(help="One sentence on what it does.")] = "",
) -> None:
    """Make a new plugin that answers in the chat, with a setting, a hook, tests and a git repository.

    \b
    Example:
      pkg dev init dice --description "Throws dice for the group."
    """
    from lumia.pkg.dev.scaffold import checked_name, create

    name = checked_name(name)
    made = folder or Path(name)
    create(made.expanduser().absolute(), name, description=description)
    output.text(str(made))
    output.note(f"next: cd {made} && pkg dev run --watch, and write !{name}")
