"""What happens to what can't be stored now: one answer for every adapter (docs/adapters.md, "When there is no room").

A route lets the error through, and the gateway answers 429 or 503 with Retry-After. A socket or a poll has nobody to
tell: it holds what arrived, tries again, and lets nothing of the same chat pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lumia import system
from lumia.adapters.states import AccountState
from lumia.errors import BackendUnavailableError, BoxError, BusyLaneError, PayloadError

T = TypeVar("T")
PAUSES = (0.25, 5.0)
"""Seconds between two tries: the first pause, which doubles, and the longest."""
PATIENCE = 60.0
"""Seconds for which `until_stored` tries what fails by a fault; then it is given up, so that others get through."""
FAULT_PAUSE = 1.0
_log = logging.getLogger("lumia.adapters")


async def hold(state: AccountState, store: Callable[[], Awaitable[T]]) -> T:
    """Return what `store()` gives, tried until the broker and the chat's lane take it; for sockets and polls.

    It holds up whoever awaits it: the caller keeps a chat's messages in a row, and stops reading when it has too many
    at hand, so that they stay at the platform. `lumia adapters` shows how many an account holds, and why. Raises
    whatever trying again can't mend.
    """
    from lumia.gateway import BusyError  # loads the web framework, which only a gateway needs

    pause, held = PAUSES[0], None
    try:
        while True:
            try:
                return await store()
            except BusyLaneError as error:
                wait, why = min(PAUSES[1], max(pause, error.wait)), str(error)
            except BackendUnavailableError as error:
                wait, why = pause, str(error)
            except BusyError as error:
                wait, why = pause, error.detail
            if held is None:
                held = state.holding(why)
            await asyncio.sleep(wait * (0.75 + system.random() / 2))
            pause = min(PAUSES[1], pause * 2)
    finally:
        if held is not None:
            held()


async def until_stored(state: AccountState, store: Callable[[], Awaitable[T]], what: str) -> T | None:
    """Return what `store()` gives, held as by `hold`; None for what never can be stored: the log and the account's
    state (`lumia adapters`) tell of it.

    what: names it there, e.g. "message 12". A fault that nobody has thought of is tried for `PATIENCE`.
    """
    since, whose = system.monotonic(), f"{state.standing.adapter}/{state.standing.account}"
    while True:
        try:
            return await hold(state, store)
        except (PayloadError, BoxError) as error:
            _log.error("%s of %s can't be taken: %s", what, whose, error)
            state.leaves_out(what, error)
            return None
        except Exception as error:  # others shall get through
            if system.monotonic() - since > PATIENCE:
                _log.exception("%s of %s was not taken for %g s and is given up", what, whose, PATIENCE)
                state.leaves_out(what, error)
                return None
        await asyncio.sleep(FAULT_PAUSE * (0.75 + system.random() / 2))
