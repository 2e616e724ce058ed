"""One asyncio loop in a background thread per process, on which every model client lives.

HTTP connections belong to the loop that opened them, and neither loop nor connection survives a fork. So synchronous
handlers (worker threads), asynchronous ones (the worker's own loop) and the gateway all send their calls here, and a
forked child starts a loop and clients of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine, Hashable
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from lumia.errors import ModelError

T = TypeVar("T")
_CLOSE_SECONDS = 2.0


class Bridge:
    """The loop, its thread, and what lives on it: `cache` (clients by configuration) and `stack` (what to close)."""

    def __init__(self) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self.cache: dict[Hashable, Any] = {}
        self.stack = AsyncExitStack()
        self._thread = threading.Thread(target=self._serve, name="lumia-models", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run `call` on the loop and wait for it; `call` is cancelled if the waiting ends early."""
        if threading.current_thread() is self._thread:
            call.close()
            raise ModelError("chat() would wait for itself on the loop of the model clients: use achat() here")
        future = asyncio.run_coroutine_threadsafe(call, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise ModelError(
                "the model call was cancelled because this process is ending; a retry makes it again"
            ) from None
        finally:
            future.cancel()

    async def arun(self, call: Coroutine[Any, Any, T]) -> T:
        """Run `call` on the loop and await it from any other loop; cancelling the caller cancels `call`."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self.loop))

    def close(self) -> None:
        """Close the clients, then the loop, then the thread."""
        asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(_CLOSE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        self.loop.close()

    async def _close(self) -> None:
        self.cache.clear()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self.stack.aclose()
        for _ in range(3):  # closed connections leave the loop in its next turns
            await asyncio.sleep(0)


_lock = threading.Lock()
_current: Bridge | None = None
_of_parents: list[Bridge | None] = []


def current() -> Bridge:
    """Return this process's bridge, started at the first call."""
    global _current
    with _lock:
        if _current is None:
            _current = Bridge()
        return _current


def close() -> None:
    """End this process's bridge, if any; the next call starts a new one. Runs at exit."""
    global _current
    with _lock:
        ended, _current = _current, None
    if ended is not None:
        ended.close()


def _after_fork() -> None:
    # The parent's loop must never be collected here: closing it would unregister the parent's wake-up socket from
    # the epoll instance both processes share.
    global _current, _lock
    _of_parents.append(_current)
    _current, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close)
