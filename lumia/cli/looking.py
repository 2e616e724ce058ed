"""`python -m lumia.cli.looking`: what the plugins of a bot root come to when they are imported, as one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from typing import Any


def look() -> dict[str, Any]:
    """Import every plugin, and return versions and tools of the loaded ones, and what failed as (stage, sentence)."""
    from lumia.cli import output
    from lumia.cli.opened import read_from_files
    from lumia.mcp import KIND as TOOL

    with redirect_stdout(sys.stderr), output.quiet(), read_from_files() as (loaded, _):
        return {
            "versions": {name: plugin.version for name, plugin in loaded.plugins.items()},
            "tools": [[handler.plugin, handler.mark.id] for handler in loaded.handlers(TOOL)],
            "failed": {failure.name: [failure.stage, str(failure)] for failure in loaded.failures},
        }


def main() -> None:
    """Print it as the only line on stdout."""
    from lumia.errors import LumiaError

    told = os.dup(1)
    os.dup2(2, 1)
    try:
        found = look()
    except LumiaError as error:
        found = {"error": str(error)}
    os.write(told, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()
