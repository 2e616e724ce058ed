"""Storing what arrived, for the Gateway's connections and the webhook alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia
from lumia import gateway

from . import interactions
from .accounts import NAME, Account


async def interaction(account: Account, data: Mapping[str, Any], msg: dict[str, Any]) -> str:
    """Accept an interaction and return its run's id; its token stays out of Box and trace. msg: what it says."""
    await gateway.call(interactions.keep, account.name, data)
    return await lumia.adapters.submit(NAME, msg, raw=interactions.bare(data))
