"""Serving each configured account by a task of its own, as the settings change: the resident of an adapter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, NoReturn, Protocol, TypeVar

from lumia.adapters.states import account
from lumia.errors import LumiaError

LOOK = 2.0
"""Seconds between two looks at the settings."""
ENDING = 5.0
"""Seconds that a task may take to end before the next one of its account begins."""
_log = logging.getLogger("lumia.adapters")


class Configured(Hashable, Protocol):
    """An account as an adapter reads it from its settings; with other settings it is another one."""

    @property
    def name(self) -> str:
        """Return what it is called in the settings."""


A = TypeVar("A", bound=Configured)


async def following(
    adapter: str,
    wanted: Callable[[], Collection[A]],
    serve: Callable[[A], Coroutine[Any, Any, None]],
    *,
    names: Callable[[], Collection[str]],
    platform: str = "",
) -> NoReturn:
    """Run `serve(account)` for each of `wanted()` until cancelled; accounts come, change and go with the settings.

    wanted: the accounts to serve now; it tells how the others fare, since it knows why. names: of all that are
    configured; one that isn't any more is told as taken out. A task that has failed is logged and begun anew at the
    next look, and so is one that has ended; it ends no other.
    """
    running: dict[A, asyncio.Task[None]] = {}
    try:
        while True:
            now = set(wanted())
            left = [one for one in running if one not in now or running[one].done()]
            await _ended(adapter, {one: running.pop(one) for one in left})
            for name in {one.name for one in left} - {one.name for one in now} - set(names()):
                account(adapter, name, platform=platform).disconnected(f"taken out of config/{adapter}.toml")
            for one in now - running.keys():
                running[one] = asyncio.create_task(serve(one), name=f"{adapter}/{one.name}")
            await asyncio.sleep(LOOK)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


async def _ended(adapter: str, tasks: dict[A, asyncio.Task[None]]) -> None:
    for task in tasks.values():
        task.cancel()
    if tasks:
        await asyncio.wait(tasks.values(), timeout=ENDING)
    for one, task in tasks.items():
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None:
            trace = None if isinstance(error, LumiaError) else error
            _log.error("%s/%s: its task has failed and is begun anew: %s", adapter, one.name, error, exc_info=trace)
