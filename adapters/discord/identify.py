"""How often sessions may be started: Discord's session_start_limit and max_concurrency (events/gateway.mdx)."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import lumia
from lumia import gateway
from lumia.errors import RetryAfterError

from . import rest
from .accounts import Account

EVERY = 5.0
"""Seconds between two identifies of the same concurrency key."""


class Starts:
    """Starts the sessions of one bot, no more than Discord allows."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lock = asyncio.Lock()
        self._last: dict[int, float] = {}
        self._concurrency = 1

    async def url(self) -> str:
        """Return where to start a session; raises `lumia.errors.RetryAfterError` when no start is left today."""
        found = await gateway.call(rest.gateway, self._account)
        limit = found.get("session_start_limit") or {}
        self._concurrency = max(1, int(limit.get("max_concurrency", 1)))
        if int(limit.get("remaining", 1)) < 1:
            wait = float(limit.get("reset_after", 60000)) / 1000
            raise RetryAfterError(
                f"no session may be started for {wait:.0f} s: Discord's limit of today is used up", wait
            )
        return self._account.gateway_url or str(found["url"])

    async def turn(self, shard: int) -> None:
        """Wait until a shard may identify."""
        async with self._lock:
            key = shard % self._concurrency
            now = lumia.system.monotonic()
            wait = self._last.get(key, now - EVERY) + EVERY - now
            if wait > 0:
                await asyncio.sleep(wait)
            self._last[key] = lumia.system.monotonic()

    def identify(self, shard: int) -> dict[str, Any]:
        """Return the data of an identify."""
        account = self._account
        made: dict[str, Any] = {
            "token": account.token,
            "intents": account.intents,
            "properties": {"os": sys.platform, "browser": "lumia", "device": "lumia"},
            "large_threshold": 50,
        }
        if account.shards > 1:
            made["shard"] = [shard, account.shards]
        if account.presence:
            activity = {"name": "Custom Status", "type": 4, "state": account.presence}
            made["presence"] = {"since": None, "activities": [activity], "status": "online", "afk": False}
        return made
