"""Storing what arrived, for the Gateway's connections and the webhook alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import lumia
from lumia import gateway
from lumia.adapters import AccountState
from lumia.errors import BoxError, PayloadError

from . import interactions
from .accounts import NAME, Account

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds for which something is tried that fails by a fault; then it is given up, so that others get through."""
_PAUSE = 1.0
_log = logging.getLogger("lumia.discord")


async def interaction(account: Account, data: Mapping[str, Any], msg: dict[str, Any]) -> str:
    """Accept an interaction and return its run's id; its token stays out of Box and trace. msg: what it says."""
    await gateway.call(interactions.keep, account.name, data)
    return await lumia.adapters.submit(NAME, msg, raw=interactions.bare(data))


async def until_stored(state: AccountState, store: Callable[[], Awaitable[T]], what: str) -> T | None:
    """Return what `store()` gives, held until there is room for it; None, and a log line, for what never can be."""
    since = lumia.system.monotonic()
    while True:
        try:
            return await lumia.adapters.hold(state, store)
        except (PayloadError, BoxError) as error:
            _log.error("%s can't be taken: %s", what, error)
            return None
        except Exception:  # what nobody has thought of: others shall get through
            if lumia.system.monotonic() - since > PATIENCE:
                _log.exception("%s was not taken for %g s and is given up", what, PATIENCE)
                return None
        await asyncio.sleep(_PAUSE * (0.75 + lumia.system.random() / 2))
