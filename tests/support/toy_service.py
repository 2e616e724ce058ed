"""A process for tests of the supervisor: it says that it lives, and how it ended.

`toy_service.py FOLDER NAME MODE`; MODE is steady, stubborn (ignores SIGTERM), failing (ends at once), forking (has a
child of its own in its group) or loading (ends while it loads a plugin, until that is quarantined). SIGUSR1 lets it
leave with exit code 70, SIGUSR2 with 0.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

folder, name, mode = Path(sys.argv[1]), sys.argv[2], sys.argv[3]


def note(what: str) -> None:
    """Add a line to the common diary."""
    with (folder / "diary").open("a") as diary:
        diary.write(f"{name} {what}\n")


def end(number: int, frame: FrameType | None) -> None:
    """Note the signal; end unless stubborn."""
    note(f"got {signal.Signals(number).name}")
    if mode != "stubborn":
        note("ended")
        os._exit(0)


if mode == "failing":
    sys.stdout.write(f"{name} has no luck\n")
    sys.exit(3)
if mode == "loading":
    from lumia.errors import PluginLoadError
    from lumia.quarantine import Guard

    guard = Guard(folder.parent)
    try:
        guard.check("bad", "1")
        with guard.over("bad", "1", "import"):
            os._exit(3)
    except PluginLoadError as error:
        note(str(error))
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(70))
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
if mode == "forking" and (child := os.fork()) == 0:
    (folder / f"{name}.child").write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()
note("started")
(folder / f"{name}.{os.getpid()}").touch()
while True:
    signal.pause()
