"""What becomes of the Gateway's dispatches: messages are accepted, the rest are events or knowledge of a server."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import lumia
from lumia import gateway, runtime
from lumia.adapters import until_stored

from . import incoming, interactions
from .accounts import NAME, Account
from .arrivals import interaction
from .guilds import Guild
from .session import Session

MOST_GUILDS = 2000
"""Servers whose names stay in memory; others are read from the store when something is said there."""
_KNOWLEDGE = (
    "GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE",
    "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE",
    "THREAD_LIST_SYNC", "GUILD_MEMBER_UPDATE",
)  # fmt: skip
BLIND = (
    "messages in servers arrive empty: enable Message Content Intent at https://discord.com/developers/applications, "
    "your application, Bot, and keep bit 15 (32768) in intents"
)
_log = logging.getLogger("lumia.discord")


class Feed:
    """Takes the dispatches of one shard.

    session: tells who the bot is. notice: told once when messages come empty; blind: what it was told, "" before.
    """

    def __init__(self, account: Account, session: Session, notice: Callable[[str], None]) -> None:
        self._account, self._session, self._notice = account, session, notice
        self._state = lumia.adapters.account(NAME, account.name)
        self._guilds: OrderedDict[str, Guild] = OrderedDict()
        self.blind = ""

    def lane(self, type: str, data: dict[str, Any]) -> str:
        """Return what a dispatch is done in order with, "" when there is nothing to do about it."""
        if type == "GUILD_CREATE" and not data.get("unavailable"):
            self._remember(Guild.created(data, self._session.me))  # a message may be the very next
        if type in _KNOWLEDGE:
            return f"guild {data.get('guild_id') or data.get('id')}"
        if type not in ("MESSAGE_CREATE", "INTERACTION_CREATE") and not _is_consumed(type):
            return ""
        return f"channel {data.get('channel_id')}"

    async def take(self, type: str, data: dict[str, Any], seq: int) -> None:
        """Store what a dispatch holds; never raises for what it says."""
        try:
            if type == "MESSAGE_CREATE":
                await self._message(data)
            elif type == "INTERACTION_CREATE":
                await self._interaction(data)
            elif type in _KNOWLEDGE:
                await self._learn(type, data)
            if runtime.current().planned is None:
                await until_stored(self._state, partial(gateway.call, runtime.current().refresh_routes), type)
            if _is_consumed(type):
                await self._event(type, data, seq)
        except Exception:
            _log.exception("account %s: a %s can't be read and is passed over", self._account.name, type)

    async def _message(self, data: dict[str, Any]) -> None:
        if incoming.ignored(data) or data["author"]["id"] == self._session.me:
            return
        if incoming.is_blank(data):
            if incoming.is_hidden(data, self._session.me):
                self._told_blind()
            return
        guild = await self._guild(str(data.get("guild_id") or ""))
        msg = incoming.message(data, account=self._account.name, me=self._session.me, guild=guild)
        await until_stored(self._state, partial(lumia.adapters.submit, NAME, msg, raw=data), f"message {data['id']}")

    async def _interaction(self, data: dict[str, Any]) -> None:
        if interactions.is_talk(data):
            msg = interactions.read(data, self._account.name)
            store = partial(interaction, self._account, data, msg)
            if await until_stored(self._state, store, f"interaction {data['id']}") is None:
                return
        try:
            await gateway.call(interactions.acknowledge, self._account, data)
        except (lumia.errors.LumiaError, gateway.BusyError) as error:
            _log.warning("interaction %s was accepted and can't be acknowledged: %s", data["id"], error)

    async def _event(self, type: str, data: dict[str, Any], seq: int) -> None:
        me = self._session.me
        if type == "INTERACTION_CREATE":
            data = interactions.bare(data)
        if str(data.get("user_id", "")) == me or (data.get("author") or {}).get("id") == me:
            return
        content = lumia.Box.any(lumia.media.unsigned_links(data), meta={"account": self._account.name})
        key = f"{NAME}:{lumia.payloads.escape_id(self._account.name)}:events"
        if data.get("channel_id"):
            kind = "group" if data.get("guild_id") else "private"
            key = lumia.payloads.lane(NAME, self._account.name, kind, str(data["channel_id"]))
        dedup = f"{NAME}:{self._session.id}:{seq}"
        start = partial(gateway.call, lumia.event.start, _event(type), content, key=key, dedup=dedup)
        await until_stored(self._state, start, f"{type} {seq}")

    async def _learn(self, type: str, data: dict[str, Any]) -> None:
        id = str(data.get("guild_id") or data.get("id") or "")
        if not id or data.get("unavailable"):
            return
        if type == "GUILD_DELETE":
            self._guilds.pop(id, None)
            await until_stored(self._state, partial(gateway.call, self._forget, id), f"server {id}")
            return
        guild = await self._guild(id)
        if guild is not None and (type == "GUILD_CREATE" or guild.apply(type, data, self._session.me)):
            await until_stored(self._state, partial(gateway.call, self._keep, guild), f"server {id}")

    async def _guild(self, id: str) -> Guild | None:
        if not id:
            return None
        if id not in self._guilds:
            kept = await until_stored(self._state, partial(gateway.call, self._kept, id), f"server {id}")
            if kept is None:
                return None
            self._remember(Guild.kept(kept))
        self._guilds.move_to_end(id)
        return self._guilds[id]

    def _remember(self, guild: Guild) -> None:
        self._guilds[guild.id] = guild
        self._guilds.move_to_end(guild.id)
        while len(self._guilds) > MOST_GUILDS:
            self._guilds.popitem(last=False)

    def _kept(self, id: str) -> Any:
        return lumia.store.of(NAME).get(f"guild:{id}", scope=self._account.name)

    def _keep(self, guild: Guild) -> None:
        lumia.store.of(NAME).set(f"guild:{guild.id}", guild.as_dict(), scope=self._account.name)

    def _forget(self, id: str) -> None:
        lumia.store.of(NAME).delete(f"guild:{id}", scope=self._account.name)

    def _told_blind(self) -> None:
        if not self.blind:
            self.blind = BLIND
            _log.warning("account %s: %s", self._account.name, BLIND)
            self._notice(BLIND)


def _event(type: str) -> str:
    return f"{NAME}.{type.lower()}"


def _is_consumed(type: str) -> bool:
    """Tell whether somebody listens to an event; while no worker has said which handlers there are, that may be."""
    known = runtime.current().planned
    return known is None or bool(known.index.plan("event", _event(type)).steps)
