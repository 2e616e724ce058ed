"""While a replay runs, this process reaches nothing outside: a handler that tries to gets an error instead.

Calls that go through `lumia.effect` never come here, they are answered from the record. This is for code that goes its
own way, e.g. an HTTP request made directly: replaying an incident must not repeat it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lumia.errors import ReplayError

REFUSED = {
    "socket.connect": "connect to {1}",
    "socket.sendto": "send to {1}",
    "socket.getaddrinfo": "look up {0}",
    "socket.gethostbyname": "look up {0}",
    "subprocess.Popen": "start the program {0}",
    "os.system": "run {0}",
    "os.exec": "run {0}",
    "os.posix_spawn": "start the program {0}",
}
"""Audit events of the interpreter, and what stands for them in a message."""

_lock = threading.Lock()
_installed = False
_guarding = 0
_refused: list[str] = []


@contextmanager
def alone() -> Iterator[list[str]]:
    """Refuse what reaches outside in this block, in every thread; yields the list of what was refused so far."""
    global _guarding, _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_hook)  # can't be taken back, so it looks whether a replay is on
            _installed = True
        if not _guarding:
            _refused.clear()
        _guarding += 1
    try:
        yield _refused
    finally:
        with _lock:
            _guarding -= 1


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _guarding and event in REFUSED:
        what = REFUSED[event].format(*args)
        _refused.append(what)
        raise ReplayError(
            f"a replay reaches nothing outside, and this code tried to {what}: make the call through lumia.effect, so "
            "that it is recorded and a replay gets its result"
        )
