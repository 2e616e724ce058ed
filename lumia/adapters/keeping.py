"""Keeping an account connected: whenever this gateway owns it, again after whatever ends that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from lumia.adapters.owning import Owned, owning
from lumia.adapters.states import AccountState
from lumia.errors import LeaseLostError

REFUSED_PAUSE = 600.0
"""Seconds after a refusal; what its reason names may be put right at the platform, of which nobody tells us."""
PAUSES = (1.0, 60.0)
_log = logging.getLogger("lumia.adapters")


class NotAdmittedError(Exception):
    """The platform won't have an account with these settings; says why, for people."""


class ClosedError(Exception):
    """A connection has ended. code: None when it was cut; reason: what the other side said."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason

    @classmethod
    def of(cls, error: Exception) -> ClosedError:
        """Return what a `websockets.ConnectionClosed` says."""
        given = getattr(error, "rcvd", None)
        return cls(given.code, given.reason) if given is not None else cls(None)


async def keeping_up(
    state: AccountState, connect: Callable[[Owned], Awaitable[None]], down: Callable[[str], None] | None = None
) -> NoReturn:
    """Run `connect(owned)` whenever this gateway owns the account of `state`, until cancelled.

    A `NotAdmittedError`, also of one in a group, is told as refused and tried again after ten minutes; meanwhile the
    lease is kept, since another gateway would only be refused again. down: told why the connection is down, unless
    given `state.disconnected`.
    """
    whose, down = f"{state.standing.adapter}/{state.standing.account}", down or state.disconnected
    pause, loop = PAUSES[0], asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            async with owning(whose) as owned:
                await _admitted(state, whose, connect(owned))
        except LeaseLostError:
            down("another gateway may have it by now")
            pause = PAUSES[0]
        except Exception:  # what goes wrong with one account ends no other
            _log.exception("%s: its connection failed and is begun again in %g s", whose, pause)
            down("an error of this adapter, see the gateway's log")
        pause = PAUSES[0] if loop.time() - began > 2 * PAUSES[1] else pause
        await asyncio.sleep(pause)
        pause = min(PAUSES[1], pause * 2)


async def _admitted(state: AccountState, whose: str, connecting: Awaitable[None]) -> None:
    why = ""
    try:
        await connecting
    except* NotAdmittedError as refused:
        why = str(refused.exceptions[0])
    if why:
        _log.error("%s is not connected: %s; it is tried again in %g minutes, and when its settings change",
                   whose, why, REFUSED_PAUSE / 60)  # fmt: skip
        state.refused(why)
        await asyncio.sleep(REFUSED_PAUSE)
