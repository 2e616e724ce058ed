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
from lumia.errors import BackendUnavailableError, BusyLaneError

T = TypeVar("T")
PAUSES = (0.25, 5.0)
"""Seconds between two tries: the first pause, which doubles, and the longest."""
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
