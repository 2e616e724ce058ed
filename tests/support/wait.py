"""Waiting on conditions: tests never sleep for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(probe: Callable[[], T], *, timeout: float = 10.0, what: str = "") -> T:
    """Return the first truthy value of `probe`, asked every 10 ms; fail after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what or probe}")
        time.sleep(0.01)
