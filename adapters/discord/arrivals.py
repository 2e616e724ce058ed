"""Storing what arrived, for the Gateway's connections and the webhook alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import lumia
from lumia import gateway
from lumia.errors import BackendUnavailableError, BoxError, BusyLaneError, PayloadError

from . import interactions
from .accounts import NAME, Account

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds for which a message is offered to a lane that is full; then it is given up, so that others get through."""
_PAUSES = (0.1, 5.0)
_log = logging.getLogger("lumia.discord")


async def interaction(account: Account, data: Mapping[str, Any], msg: dict[str, Any]) -> str:
    """Accept an interaction and return its run's id; its token stays out of Box and trace. msg: what it says."""
    await gateway.call(interactions.keep, account.name, data)
    return await lumia.adapters.take(NAME, msg, raw=interactions.bare(data))


async def until_stored(store: Callable[[], Awaitable[T]], what: str) -> T | None:
    """Return what `store()` gives, tried until the broker takes it; None, and a log line, for what never can be."""
    pause, since, told = _PAUSES[0], lumia.system.monotonic(), False
    while True:
        try:
            return await store()
        except (BackendUnavailableError, gateway.BusyError) as error:
            if not told:
                _log.warning("%s waits for the broker: %s", what, error)
                told = True
            wait, since = pause, lumia.system.monotonic()
            pause = min(_PAUSES[1], pause * 2)
        except (PayloadError, BoxError) as error:
            _log.error("%s can't be taken: %s", what, error)
            return None
        except Exception as error:  # a full lane, or what nobody has thought of: others shall get through
            if lumia.system.monotonic() - since > PATIENCE:
                _log.exception("%s was not taken for %g s and is given up", what, PATIENCE)
                return None
            wait = min(5.0, max(0.05, error.wait if isinstance(error, BusyLaneError) else 1.0))
        await asyncio.sleep(wait * (0.75 + lumia.system.random() / 2))
