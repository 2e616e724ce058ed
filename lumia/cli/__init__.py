"""The `lumia` command: commands of the core, and those that plugins and the backend contribute.

Data goes to stdout, everything else to stderr; exit codes are 0 (ok), 1 (failed), 2 (usage) and 130 (Ctrl-C). An
expected failure is one line `error: …`, with --json also a JSON value; `LUMIA_DEBUG=1` shows the traceback. typer and
rich are imported in this package only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number, as shells count it."""


def main() -> None:
    """Run the command that `sys.argv` names and end the process with its exit code."""
    ending(_run)


def ending(run: Callable[[], None]) -> None:
    """Call `run`, a whole command, and end the process with its exit code; an expected failure is told in one line."""
    from lumia.cli import output
    from lumia.errors import LumiaError

    output.prepare()
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        # typer turns Ctrl-C into its own Abort, and that into exit code 1.
        sys.exit(INTERRUPTED if type(ended.__context__).__name__ == "Abort" else ended.code)
    except LumiaError as error:
        if os.environ.get("LUMIA_DEBUG") == "1":
            raise
        output.error(str(error))
        sys.exit(1)


def _run() -> None:
    from lumia.cli.app import build
    from lumia.cli.failing import told_as_json

    args = sys.argv[1:]
    with told_as_json(args):
        build(args)(prog_name="lumia")
