"""What the probe's handlers have in common."""

from __future__ import annotations

import os
import time
from typing import Any

import lumia

QUICK = lumia.Retry(attempts=3, backoff=0.02)


def note(content: lumia.Box[Any], *what: object) -> None:
    """Note what was seen in the store, in the scope that the content names."""
    lumia.store.append("seen", list(what), scope=content.into()["scope"], keep=10_000)


def count_call(path: str) -> int:
    """Count a call where no commit can undo it: in a file."""
    with open(path, "a") as file:
        file.write("x")
    return os.path.getsize(path)


async def acount_call(path: str) -> int:
    return count_call(path)


def appeared(path: str, seconds: float = 20.0) -> bool:
    """Wait until the test, or another process, has made a file; tells whether it came."""
    end = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    return os.path.exists(path)
