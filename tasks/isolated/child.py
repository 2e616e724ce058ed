"""A process that executes the steps of one isolated plugin, one at a time.

`python -m tasks.isolated.child NAME GENERATION MEMORY_MB` is started by `tasks.isolated.process` with the plugin's own
environment and one end of a socket. It tells `{"ready": …}` or `{"failed": why}`, gets claims, and tells what became of
each. It commits itself, with the claim's token; its parent only commits for one that did not live to do so.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from lumia.errors import LumiaError
from lumia.executor import StepListener
from lumia.isolation_limits import restrain
from lumia.manifest import ProcessLimits
from lumia.ports import Claim
from lumia.routes import PlanStep
from lumia.runtime import Runtime, open_bot
from tasks.alone import load

SOCKET = "LUMIA_ISOLATED_SOCKET"
ROUTES_SECONDS = 1.0
"""How often a process that is given steps looks whether the routes it starts runs with are still those published."""

_MOST = 5000
"""Characters of what is told, which fit into the line that the parent reads however they are written."""


class _Heard(StepListener):
    told: dict[str, str] | None = None

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        self.told = {"outcome": outcome, "error": error}


class _Parent:
    """The socket to the process that gives the steps. Its end ends this process, in the middle of a step at once."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._own.set_inheritable(False)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._busy = False
        os.register_at_fork(after_in_child=own.close)
        threading.Thread(target=self._read, name="lumia-parent", daemon=True).start()

    def tell(self, **what: Any) -> None:
        self._busy = False
        cut = {key: value[:_MOST] if isinstance(value, str) else value for key, value in what.items()}
        self._own.sendall(json.dumps(cut).encode() + b"\n")

    def next(self) -> bytes:
        """Return the next claim, b"" when there will be none."""
        line = self._lines.get()
        self._busy = bool(line)
        return line

    def _read(self) -> None:
        with self._own.makefile("rb") as lines:
            for line in lines:
                self._lines.put(line)
        if self._busy:
            os._exit(1)
        self._lines.put(b"")


def main(name: str, generation: str, memory_mb: str) -> None:
    """Load the plugin and execute what is given, until the other end of the socket closes."""
    parent = _Parent(socket.socket(fileno=int(os.environ.pop(SOCKET))))
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s {name}[%(process)d]: %(message)s")
    restrain(ProcessLimits(memory_mb=int(memory_mb)))
    try:
        bot = open_bot(load="all")
    except LumiaError as error:
        parent.tell(failed=str(error))
        return
    try:
        if why := _unusable(bot, name, generation):
            parent.tell(failed=why)
            return
        _serve(bot, parent)
    finally:
        bot.close()


def _unusable(bot: Runtime, name: str, generation: str) -> str:
    assert bot.plugins is not None
    plugin = bot.plugins.plugins.get(name)
    if plugin is None:
        return "; ".join(str(one) for one in bot.plugins.failures) or f"there is no plugin {name}"
    if plugin.generation != generation:
        return f"its files are {plugin.generation} by now, not {generation}"
    return ""


def _serve(bot: Runtime, parent: _Parent) -> None:
    bot.limits = replace(bot.limits, fuse=False, batch=1)
    # A copy of this process that a handler forked, and that comes back from the handler, must not commit its step too.
    os.register_at_fork(after_in_child=lambda: setattr(bot.transport, "commit", lambda *_: os._exit(0)))
    looked = 0.0
    parent.tell(ready=os.getpid())
    while line := parent.next():
        claim, heard = load(line), _Heard()
        with bot.activated():
            if time.monotonic() - looked > ROUTES_SECONDS:
                _look_for_routes(bot)
                looked = time.monotonic()
            bot.executor.process(claim, heard)
        parent.tell(**(heard.told or {"outcome": "handback", "error": ""}))


def _look_for_routes(bot: Runtime) -> None:
    transport: Any = bot.transport
    try:
        if bot.planned is None or transport.routes_number() != bot.planned.number:
            bot.refresh_routes()
    except LumiaError as error:
        bot.log.warning("looking for new routes: %s", error)


if __name__ == "__main__":
    main(*sys.argv[1:])
