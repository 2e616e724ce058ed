"""What becomes of an event, from a socket or a post alike: a run of pipeline `msg`, an event of Lumia's, or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import lumia
from lumia import gateway

from . import delivery, files, incoming
from .accounts import NAME, Login
from .logins import Logins

_MOST_REFERRER = 8192


class Feed:
    """Takes the events of one server."""

    def __init__(self, logins: Logins) -> None:
        self.logins, self.server = logins, logins.server
        self.proxied: tuple[str, ...] = ()

    def meta(self, body: Mapping[str, Any]) -> None:
        """Take in READY's or META's beginnings of addresses that only the server can fetch."""
        given = body.get("proxy_urls")
        if isinstance(given, list):
            self.proxied = tuple(one for one in given if isinstance(one, str) and one)

    def lane(self, event: Mapping[str, Any]) -> str:
        """Return what an event has to stay in order with."""
        login, chat = incoming.login_of(event), incoming.chat_of(event)
        return f"{login} {chat['id'] if chat else ''}"

    async def take(self, event: dict[str, Any]) -> None:
        """Accept an event; the same one again changes nothing. Raises as `lumia.adapters.submit`."""
        if event.get("type") in incoming.LOGINS:
            self.logins.changed(event)
            await self._keep_logins()
            return
        login = incoming.login_of(event)
        if login is None or not self.server.serves(login):
            return
        self.logins.heard(login)
        await self._keep_logins()
        if event.get("type") == incoming.CREATED:
            await self._message(event, login)
        else:
            await self._start(event, login)

    async def _keep_logins(self) -> None:
        if self.logins.dirty:
            await gateway.call(self.logins.keep)

    async def _message(self, event: dict[str, Any], login: Login) -> None:
        if incoming.ignored(event, login, self.logins.known()):
            self.logins.state(login).event()
            return
        found = incoming.reading(event)
        if any(files.is_inside(item) for item in found.media):
            media = await gateway.call(files.described, found.media, self.proxied)
        else:
            media = files.described(found.media, self.proxied)
        answers = await self._answers_bot(event, login, found)
        msg = incoming.message(event, self.server, login, found, media, answers_bot=answers)
        await self._keep_referrer(event, msg)
        await lumia.adapters.submit(NAME, msg, event, meta=incoming.meta(event, login))

    async def _answers_bot(self, event: dict[str, Any], login: Login, found: Any) -> bool:
        author, replied, chat = incoming.quoted_author(event, found), incoming.replied(event, found), None
        if author or not replied:
            return author == login.self_id
        chat = incoming.chat_of(event)
        account = self.server.account(login)
        return chat is not None and await gateway.call(_is_ours, account, chat, replied)

    async def _keep_referrer(self, event: dict[str, Any], msg: Mapping[str, Any]) -> None:
        given = event.get("referrer")
        if given is not None and len(json.dumps(given, default=str)) <= _MOST_REFERRER:
            await gateway.call(delivery.keep_referrer, msg["account"], msg["chat"]["id"], given)

    async def _start(self, event: dict[str, Any], login: Login) -> None:
        """Start the event, if somebody consumes it."""
        bot, id = lumia.runtime.current(), incoming.event_id(event)
        if bot.planned is None:
            await gateway.call(bot.refresh_routes)
        self.logins.state(login).event()
        if not id or not bot.routes.plan("event", id).steps:
            return
        chat, account = incoming.chat_of(event) or {"kind": "private", "id": login.self_id}, self.server.account(login)
        key = lumia.payloads.lane(NAME, account, chat["kind"], chat["id"])
        meta = {**incoming.meta(event, login), "account": account, "chat": chat}
        content = lumia.Box.any(lumia.media.unsigned_links(event), meta=meta)
        await gateway.start(id, content, flow="event", key=key, dedup=f"{key}:{incoming.fingerprint(event)}")


def _is_ours(account: str, chat: Mapping[str, Any], message_id: str) -> bool:
    return lumia.adapters.receipts.sent(NAME, account, chat, message_id) is not None
