"""`python -m tasks.supervise ROOT [--no-flower] [--no-postgres] [--port N]`: the supervisor of `lumia up --detach`."""

from __future__ import annotations

import sys
from pathlib import Path

from lumia import paths
from lumia.errors import LumiaError
from tasks.supervise import up
from tasks.supervise.client import log_line
from tasks.supervise.folders import Folders
from tasks.supervise.plan import UpOptions


def main(arguments: list[str]) -> int:
    """Run until a signal; every line goes to data/logs/up.log."""
    root, *words = arguments
    port = int(words[words.index("--port") + 1]) if "--port" in words else 0
    options = UpOptions("--no-flower" not in words, "--no-postgres" not in words, port)
    log = Folders(Path(root)).log(up.OWN_LOG)
    try:
        up.run(
            paths.base(), Path(root), options, lambda line: log_line(log, line), lambda state: log_line(log, "ready")
        )
    except LumiaError as error:
        log_line(log, f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
