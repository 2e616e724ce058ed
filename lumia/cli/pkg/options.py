"""Flags that several commands share, so that they read alike everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before changing anything.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done, and do nothing.")]
NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Don't wait for another pkg at work on this bot: end with an error."),
]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", show_default=False)]
