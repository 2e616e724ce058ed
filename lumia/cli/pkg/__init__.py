"""The `pkg` command: plugins are installed, upgraded, removed, found and developed with it (spec §7, §13).

It behaves as `lumia` does: data on stdout, everything else on stderr; exit codes 0 (ok), 1 (failed), 2 (usage) and
130 (Ctrl-C). With --json a failure is a JSON value, too. `lumia pkg …` is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = 2
"""Exit code for a wrong command line."""


def main() -> None:
    """Run the command that `sys.argv` names and end the process with its exit code."""
    from lumia.cli import ending

    ending(lambda: run(sys.argv[1:]))


def run(args: Sequence[str], prog: str = "pkg") -> None:
    """Run one `pkg` command; ends with `SystemExit` as typer does, an expected failure raises `LumiaError`."""
    from lumia.cli import output
    from lumia.cli.failing import told_as_json
    from lumia.cli.pkg.app import build
    from lumia.cli.pkg.translate import UnknownOperationError, as_command

    with told_as_json(args):
        try:
            command = as_command(args)
        except UnknownOperationError as error:
            output.error(str(error))
            sys.exit(USAGE)
        build(command, prog)(args=command, prog_name=prog)
