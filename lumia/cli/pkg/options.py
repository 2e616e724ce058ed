"""Flags that several commands share, so that they read alike everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from lumia.cli.pkg.changing import How

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME", show_default=False)]
FLAGS = {
    "yes": Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before changing anything.")],
    "dry_run": Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done, and do nothing.")],
    "no_wait": Annotated[
        bool, typer.Option("--no-wait", help="Don't wait for another pkg at work on this bot: end with an error.")
    ],
    "as_json": Json,
}
"""The flags of everything that changes something, by their names in `How`."""


def changes(*, force: str = "", **fixed: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of a change; what they say is handed to it as `how`.

    force: help of --force; without it there is no such flag. fixed: what else `How` says of this command.
    """

    def given_flags(command: Callable[..., None]) -> Callable[..., None]:
        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "how"]
        flags = FLAGS | ({"force": Annotated[bool, typer.Option("--force", help=force)]} if force else {})

        @functools.wraps(command)
        def run(**given: Any) -> None:
            said = {name: given.pop(name) for name in flags}
            command(**given, how=How(**said, **fixed))

        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
            for name, kind in flags.items()
        ]
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]  # functions take it
        run.__annotations__ = {}
        del run.__wrapped__  # its annotations would be read instead
        return run

    return given_flags
