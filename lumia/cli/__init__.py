"""The `lumia` command: commands of the core, and those that plugins and the backend contribute.

Data goes to stdout, everything else to stderr; exit codes are 0 (ok), 1 (failed) and 2 (usage). An expected failure is
one line `error: …`; `LUMIA_DEBUG=1` shows the traceback. typer and rich are imported in this package only.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command that `sys.argv` names and end the process with its exit code."""
    from lumia.cli import output
    from lumia.cli.app import build
    from lumia.errors import LumiaError

    output.prepare()
    try:
        build(sys.argv[1:])(prog_name="lumia")
    except LumiaError as error:
        if os.environ.get("LUMIA_DEBUG") == "1":
            raise
        output.error(str(error))
        sys.exit(1)
