"""`pkg dev validate`: check a plugin before anybody else sees it (spec §14.1)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lumia.cli import output

if TYPE_CHECKING:
    from lumia.pkg.validate import Finding


class Format(StrEnum):
    """How findings are written."""

    text = "text"
    json = "json"
    sarif = "sarif"


def validate_command(
    folder: Annotated[Path, typer.Argument(help="The plugin's folder.")] = Path(),
    format: Annotated[Format, typer.Option("--format", help="For people, for scripts, or SARIF 2.1.0.")] = Format.text,
    dependency: Annotated[
        list[Path] | None, typer.Option("--dependency", help="Folder of a plugin it depends on; may be repeated.")
    ] = None,
    no_ruff: Annotated[bool, typer.Option("--no-ruff", help="Leave out style and formatting.")] = False,
) -> None:
    """Check style, types of Boxes and live resources of a plugin; nothing of it is executed.

    Plugins it depends on are looked for beside it. Exit code 1 when something is wrong.

    \b
    Example:
      pkg dev validate
      pkg dev validate plugins/dice --format sarif > dice.sarif
    """
    from lumia.pkg.validate import failed, validate
    from lumia.pkg.validate.beside import dependencies_of
    from lumia.pkg.validate.output import as_json, as_sarif, as_text

    folder = folder.absolute()
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is no folder; name the folder of a plugin")
    findings = validate(folder, dependencies=[*(dependency or ()), *dependencies_of(folder)], lint=not no_ruff)
    if format is Format.text:
        if findings:
            output.text(as_text(findings))
        output.note(f"{folder.name}: {_summary(findings)}")
    else:
        output.text(as_sarif(findings) if format is Format.sarif else as_json(findings))
    if failed(findings):
        raise typer.Exit(1)


def _summary(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing found"
    errors = sum(one.severity == "error" for one in findings)
    counts = ((errors, "error"), (len(findings) - errors, "warning"))
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
