"""Synchronous calls into the core, on a bounded set of threads, so that no request can block the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.exceptions import HTTPException

from lumia.gateway.scope import current

P = ParamSpec("P")
T = TypeVar("T")


class BusyError(HTTPException):
    """More calls wait for the core than the gateway lets wait; clients get a 429 and when to come back."""

    def __init__(self, waiting: int) -> None:
        super().__init__(429, f"{waiting} requests wait already; nothing was accepted, try again", {"Retry-After": "1"})


class Calls:
    """Runs functions on at most `threads` threads and lets at most `waiting` calls queue for them."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads, self._allowed = threads, threads + waiting
        self._limiter: CapacityLimiter | None = None
        self.pending = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `function` returns; raises `BusyError` when too many calls wait."""
        if self.pending >= self._allowed:
            raise BusyError(self.pending)
        self._limiter = self._limiter or CapacityLimiter(self._threads)
        self.pending += 1
        try:
            return await anyio.to_thread.run_sync(partial(function, *args, **kwargs), limiter=self._limiter)
        finally:
            self.pending -= 1


async def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a synchronous function of the core (`lumia.pipe.start`, `lumia.store…`) without blocking the gateway.

    Raises `BusyError` (429) when too many calls wait, else what the function raises.
    """
    return await current().calls.run(function, *args, **kwargs)


async def apart(function: Callable[[float], bool], seconds: float) -> bool:
    """Call `function(seconds)` on a thread that the process's end doesn't wait for; False when it takes much longer."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    answers: list[bool] = []

    def run() -> None:
        try:
            answers.append(function(seconds))
        finally:
            with suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name="lumia-apart", daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds + 1.0)
    return bool(answers and answers[0])
