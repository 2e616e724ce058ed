"""The logins of one server: how each fares as an account, and which there are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import lumia
from lumia.adapters import AccountState

from . import accounts, incoming
from .accounts import NAME, Login, Server

OFFLINE, ONLINE, CONNECT, DISCONNECT, RECONNECT = range(5)
"""`login.status` (satori.chat, Login)."""
_log = logging.getLogger("lumia.satori")


class Logins:
    """What a gateway knows of a server's logins. dirty: they are not as they were last kept."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._names: dict[Login, str] = {}
        self._serials: dict[int, Login] = {}
        self.dirty = False

    def known(self) -> list[Login]:
        """Return those that the server has named."""
        return list(self._names)

    def ready(self, given: Iterable[Any]) -> None:
        """Take in the logins of READY; one that is missing now is offline."""
        before, self._serials = set(self._names), {}
        named = [login for login in (self.told(one) for one in given if isinstance(one, Mapping)) if login is not None]
        for login in before.difference(named):
            self._gone(login, "the Satori server has no such login any more")

    def changed(self, event: Mapping[str, Any]) -> None:
        """Take in a login event; one that names nobody is about the login of the same `sn`."""
        about = incoming.part(event, "login")
        serial = about.get("sn")
        who = incoming.login_of(event) or (self._serials.get(serial) if type(serial) is int else None)
        if who is None:
            return
        if event.get("type") == "login-removed":
            self._gone(who, "the Satori server has removed this login")
        else:
            self._told(who, about)

    def told(self, about: Mapping[str, Any]) -> Login | None:
        """Take in one login; returns it if it is served here."""
        who = incoming.login_of({"login": about})
        return who if who is not None and self._told(who, about) else None

    def heard(self, login: Login) -> None:
        """Take in that an event of a login came: it is online."""
        if login not in self._names:
            self._told(login, {})

    def _told(self, who: Login, about: Mapping[str, Any]) -> bool:
        if not self.server.serves(who):
            return False
        try:
            state = self.state(who)
        except lumia.errors.PayloadError as error:
            _log.error("satori account %s: a login is not served: %s", self.server.name, error)
            return False
        user = incoming.part(about, "user")
        name = user.get("nick") or user.get("name") or self._names.get(who, "")
        self.dirty = self.dirty or who not in self._names
        self._names[who] = str(name)
        if type(about.get("sn")) is int:
            self._serials[about["sn"]] = who
        self._show(state, who, about.get("status", ONLINE))
        return True

    def _show(self, state: AccountState, who: Login, status: Any) -> None:
        detail = " ".join(filter(None, (self._names[who], f"({who.platform} {who.self_id})")))
        if status == OFFLINE:
            state.offline("the Satori server says that this login is offline")
        elif status in (CONNECT, RECONNECT):
            state.connecting(detail)
        elif status == DISCONNECT:
            state.disconnected("the Satori server is disconnecting this login")
        elif self.server.mode == accounts.WEBHOOK:
            state.listening(detail)
        else:
            state.connected(detail)

    def _gone(self, who: Login, why: str) -> None:
        if self._names.pop(who, None) is not None:
            self.dirty = True
            self.state(who).offline(why)

    def state(self, who: Login) -> AccountState:
        """Return how a login fares."""
        return lumia.adapters.account(NAME, self.server.account(who))

    def down(self, why: str) -> None:
        """The connection to the server is gone, and with it all logins are out of reach."""
        for who in self._names:
            self.state(who).disconnected(why)

    def keep(self) -> None:
        """Store which logins there are. Synchronous."""
        self.dirty = False
        try:
            accounts.remember(self.server, self.known())
        except lumia.errors.LumiaError:
            self.dirty = True
            raise
