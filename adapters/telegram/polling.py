"""Long polling: one gateway at a time asks for updates and confirms them once they are stored (Bot API: getUpdates)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import httpx

import lumia
from lumia import gateway

from . import api, identity, incoming, taking
from .accounts import NAME, POLLING, Account
from .segments import Me

LONGER = 15.0
"""Seconds for which we wait longer than Telegram was asked to hold a request open."""
_KEPT = 86400.0
"""Seconds for which our own offset holds. Telegram keeps updates for a day; its numbers may begin anew after a week."""
_SLOWEST = 60.0
_CONFLICT = "another program polls this bot, or a webhook was set meanwhile; end it, or give this one its own token"
_log = logging.getLogger("lumia.telegram")


class Poller:
    """Fetches one bot's updates until it is cancelled. drop: those that wait at its beginning are not wanted."""

    def __init__(self, account: Account, client: httpx.AsyncClient, *, drop: bool = False) -> None:
        self.account, self._client = account, client
        self._state = lumia.adapters.account(NAME, account.name)
        self._delay = 0.0
        self._offset = 0
        self._drop = drop
        self.me: Me | None = None

    async def run(self) -> None:
        """Poll; whatever fails is told and tried again, slower and slower."""
        self._state.connecting()
        while True:
            try:
                await self._poll()
            except lumia.errors.BackendUnavailableError as error:
                await self._pause(0.0, f"the broker is away: {error}")
            except api.ApiError as error:
                await self._refused(error)
            except gateway.BusyError:
                await self._pause(0.0, "this gateway has too much to do")
            except lumia.errors.LumiaError as error:
                await self._pause(0.0, str(error))

    async def _poll(self) -> None:
        if self.me is None:
            self.me = await self._begin()
        if not self._delay:  # after trouble only the first round that goes well tells that it is over
            self._connected(self.me)
        updates = await self._fetch()
        self.me = await identity.known(self.account)  # its owner may have given it another username
        if updates:
            await self._take(updates, self.me)
        self._delay = 0.0
        self._connected(self.me)

    def _connected(self, me: Me) -> None:
        self._state.connected(f"@{me.username}, polling")

    async def _begin(self) -> Me:
        account = self.account
        me = await gateway.call(identity.remember, account, await api.acall(self._client, account, "getMe"))
        info = await api.acall(self._client, account, "getWebhookInfo")
        if info.get("url"):
            _log.warning("account %s: its webhook is removed, since mode is %s", account.name, POLLING)
        if info.get("url") or self._drop:
            await api.acall(self._client, account, "deleteWebhook", {"drop_pending_updates": self._drop})
        self._drop = False
        self._offset = await gateway.call(_stored, account.name)
        return me

    async def _fetch(self) -> Sequence[Any]:
        params = {"timeout": self.account.poll_seconds, "allowed_updates": list(self.account.allowed_updates)}
        params |= {"offset": self._offset} if self._offset else {}
        found = await api.acall(
            self._client, self.account, "getUpdates", params, patience=self.account.poll_seconds + LONGER
        )
        return found if isinstance(found, list) else []

    async def _take(self, updates: Sequence[Any], me: Me) -> None:
        """Accept a batch, chats beside each other and each chat in order; then, only then, confirm it."""
        chats: dict[Any, list[Any]] = defaultdict(list)
        for update in updates:
            chats[_chat_of(update)].append(update)
        results = await asyncio.gather(*(self._in_order(each, me) for each in chats.values()), return_exceptions=True)
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure
        self._offset = max(update["update_id"] for update in updates) + 1
        await gateway.call(_store, self.account.name, self._offset)

    async def _in_order(self, updates: Sequence[Any], me: Me) -> None:
        for update in updates:
            what, take = f"update {update.get('update_id')}", partial(taking.take, self.account, me, update)
            await lumia.adapters.until_stored(self._state, take, what)

    async def _refused(self, error: api.ApiError) -> None:
        if error.code in (401, 404):
            self._state.refused(f"Telegram doesn't know this token ({error.code}); ask @BotFather for a new one")
            _log.error("account %s: Telegram doesn't know its token, see config/telegram.toml", self.account.name)
            self.me = None
            await asyncio.sleep(_SLOWEST)
        elif error.code == 409:
            self.me = None  # a webhook that was set meanwhile is removed again
            await self._pause(0.0, _CONFLICT)
        else:
            await self._pause(error.retry_after, str(error))

    async def _pause(self, wait: float, why: str) -> None:
        self._delay = min(_SLOWEST, max(1.0, self._delay * 2))
        if self._state.state != "disconnected":
            _log.warning("account %s: %s", self.account.name, why)
        self._state.disconnected(why)
        await asyncio.sleep(max(wait, self._delay))


def _chat_of(update: Any) -> Any:
    body = next((value for key, value in update.items() if key != "update_id" and isinstance(value, dict)), {})
    return (incoming.chat_in(body) or {}).get("id")


def _stored(name: str) -> int:
    return int(lumia.store.of(NAME).get("offset", 0, scope=name))


def _store(name: str, offset: int) -> None:
    lumia.store.of(NAME).set("offset", offset, scope=name, ttl=_KEPT)
