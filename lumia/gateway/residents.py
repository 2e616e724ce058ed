"""What plugins have run in every gateway process from its start until it drains: `@lumia.web.resident`.

A resident that raises is begun anew after a pause that grows; one that returns has done its work.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lumia import system
from lumia.errors import BackendUnavailableError, LeaseLostError, LumiaError
from lumia.marks import RESIDENT
from lumia.redaction import cleaned_error

if TYPE_CHECKING:
    from lumia.runtime import Runtime

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds before a resident that failed is begun anew; doubled with every failure in a row."""
STEADY_SECONDS = 60.0
"""Who has run so long is well again."""
TOLERATED = 3
"""Failures in a row after which the operator is told."""

_log = logging.getLogger("lumia.gateway")


@dataclass
class Resident:
    """One marked function. failures: those in a row. error: the id its last one was logged under.

    owner: plugin and generation.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    owner: tuple[str, str] = ("", "")
    failures: int = 0
    error: str = ""
    alarmed: bool = True  # an alarm of an earlier process ends as well

    @property
    def is_failing(self) -> bool:
        """Tell whether it fails again and again."""
        return self.failures >= TOLERATED


def residents_of(bot: Runtime) -> list[Resident]:
    """Return those that the loaded plugins of a bot mark."""
    handlers = bot.plugins.handlers(RESIDENT) if bot.plugins is not None else []
    return [Resident(one.name, one.fn, (one.plugin, one.generation)) for one in handlers]


class Residents:
    """Runs the residents of one gateway."""

    def __init__(self, bot: Runtime, residents: Sequence[Resident]) -> None:
        self._bot, self._residents = bot, list(residents)
        self._tasks: dict[asyncio.Task[None], Resident] = {}
        self._stopping = False

    @classmethod
    def of(cls, bot: Runtime) -> Residents:
        """Return those that the loaded plugins of a bot mark."""
        return cls(bot, residents_of(bot))

    @property
    def failing(self) -> list[str]:
        """Return the names of those that fail again and again."""
        return [one.name for one in self._residents if one.is_failing]

    def start(self) -> None:
        """Begin all of them, in the running loop; they have the caller's context and its bot."""
        self._stopping = False
        for one in self._residents:
            self._begin(one)

    def _begin(self, one: Resident) -> None:
        task = asyncio.create_task(self._keep(one), name=f"resident {one.name}")
        self._tasks[task] = one
        task.add_done_callback(self._tasks.pop)

    def serves(self, owner: tuple[str, str]) -> bool:
        """Tell whether a generation of a plugin still has something running."""
        return any(one.owner == owner for one in self._tasks.values())

    async def exchange(self, owners: Collection[tuple[str, str]], seconds: float) -> None:
        """End the residents of these generations, and begin those that the bot's plugins mark now and didn't before.

        The old ones are awaited first, at most so long: they give back what only one can own, as a connection.
        """
        theirs = [task for task, one in self._tasks.items() if one.owner in owners]
        known = {one.owner for one in self._residents}
        self._residents = [one for one in self._residents if one.owner not in owners]
        fresh = [one for one in residents_of(self._bot) if one.owner not in known]
        self._residents += fresh
        await self._end(theirs, seconds)
        for one in fresh if not self._stopping else ():
            self._begin(one)

    async def stop(self, seconds: float) -> None:
        """Cancel all of them and wait until they have ended, at most so long."""
        self._stopping = True
        await self._end(list(self._tasks), seconds)

    async def _end(self, tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=max(0.0, seconds))
            for task in left:
                _log.error("%s has not ended %g s after it was cancelled; it is left behind", task.get_name(), seconds)

    async def _keep(self, one: Resident) -> None:
        task = asyncio.current_task()
        assert task is not None
        with self._bot.activated():
            while not self._stopping:
                began = time.monotonic()
                well = asyncio.get_running_loop().call_later(STEADY_SECONDS, self._is_well, one)
                try:
                    await one.run()
                except asyncio.CancelledError as error:
                    if task.cancelling():
                        raise
                    self._failed(one, error)
                except (Exception, SystemExit) as error:  # no plugin ends the gateway
                    self._failed(one, error)
                else:
                    self._is_well(one)
                    return
                finally:
                    well.cancel()
                await asyncio.sleep(self._pause(one, time.monotonic() - began))

    def _failed(self, one: Resident, error: BaseException) -> None:
        if isinstance(error, (BackendUnavailableError, LeaseLostError)):
            _log.warning("resident %s: %s", one.name, error)
            return  # not its fault
        one.failures += 1
        one.error = system.new_id()
        trace = cleaned_error("".join(traceback.format_exception(error)), self._bot.redact)
        _log.error("resident %s failed, error id %s\n%s", one.name, one.error, trace.rstrip())
        if one.is_failing:
            what = f"{one.name} has failed {one.failures} times in a row in gateway {self._bot.worker}"
            self._alarm(one, what, f"see the gateway's log for error id {one.error}")

    def _pause(self, one: Resident, lasted: float) -> float:
        if lasted > STEADY_SECONDS:
            one.failures = min(one.failures, 1)
        doubled: int = 1 << min(max(0, one.failures - 1), 10)
        return min(LONGEST_PAUSE, FIRST_PAUSE * doubled)

    def _is_well(self, one: Resident) -> None:
        one.failures, one.error = 0, ""
        if one.alarmed:
            self._alarm(one, "", "")

    def _alarm(self, one: Resident, what: str, fix: str) -> None:
        one.alarmed = bool(what)

        def tell() -> None:
            try:
                self._bot.transport.alarm(f"resident {one.name}", what, fix)
            except LumiaError as error:
                _log.warning("resident %s: the operator can't be told: %s", one.name, error)

        asyncio.get_running_loop().run_in_executor(None, tell)
