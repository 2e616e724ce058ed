"""The event loop on which a process runs its `async def` handlers (DESIGN §5, Hung steps)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Coroutine
from typing import Any

from lumia.errors import LumiaError

GRACE_SECONDS = 5.0
"""How long a handler may take to end once it was cancelled."""

log = logging.getLogger("lumia")


class AsyncLoop:
    """One event loop per process, in a thread of its own, for every `async def` handler."""

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="lumia-async", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any], limit: float, handler: str) -> Any:
        """Run a coroutine to its end and return its result or raise its error.

        It is cancelled after `limit` seconds, and given up when it goes on all the same or blocks the loop: both raise
        `LumiaError` naming the handler.
        """
        if self._closing:
            coroutine.close()
            raise LumiaError(f"{handler} was not begun: this process is ending")
        future = asyncio.run_coroutine_threadsafe(_guarded(coroutine, limit, handler), self._loop)
        try:
            value, error = future.result(limit + self._grace)
        except TimeoutError:
            future.cancel()
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()
            raise LumiaError(
                f"{handler} did not end within {self._grace:g} s after its limit of {limit:g} s: it ignores being "
                "cancelled, or blocks the event loop (use await, or make it a plain `def`)"
            ) from None
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Cancel what still runs, stop the loop and join its thread."""
        self._closing = True
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
            self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()

    def _serve(self) -> None:
        while not self._closing:
            try:
                self._loop.run_forever()
            except BaseException:
                # A task that a handler left behind raised SystemExit: other handlers still need the loop.
                log.exception("a task ended the event loop of the async handlers; it goes on")

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=2)
        self._loop.stop()


async def _guarded(coroutine: Coroutine[Any, Any, Any], limit: float, handler: str) -> tuple[Any, BaseException | None]:
    # Returned, not raised: asyncio lets SystemExit and KeyboardInterrupt of a task end the whole loop.
    try:
        async with asyncio.timeout(limit) as scope:
            return await coroutine, None
    except BaseException as error:
        if isinstance(error, TimeoutError) and scope.expired():
            return None, LumiaError(f"{handler} ran longer than its {limit:g} s and was cancelled")
        return None, error
