"""The servers of this gateway: which are connected, following the settings as they change."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

import lumia
from lumia.errors import PayloadError

from . import accounts, hub
from .accounts import NAME, WEBSOCKET, Server
from .connection import Connection
from .feed import Feed
from .logins import Logins

_log = logging.getLogger("lumia.satori")


async def serve() -> None:
    """Keep every configured server connected, until cancelled."""
    await lumia.adapters.following(NAME, _wanted, _forever, names=_names)


def _names() -> set[str]:
    return {server.name for server in accounts.servers()} | {fault.account for fault in accounts.faults()}


def _wanted() -> set[Server]:
    known = accounts.servers()
    for server in known:
        if not server.enabled:
            lumia.adapters.account(NAME, server.name).disabled()
        elif server.mode != WEBSOCKET:
            lumia.adapters.account(NAME, server.name).listening(f"POST /satori/{server.name}")
    hub.forget({server.name for server in known if server.enabled})
    for fault in accounts.faults():
        with suppress(PayloadError):  # a name that is empty or unprintable; the log and `lumia doctor` tell of it
            lumia.adapters.account(NAME, fault.account).refused(f"{fault.what}; {fault.fix}")
    return {server for server in known if server.enabled and server.mode == WEBSOCKET}


async def _forever(server: Server) -> None:
    state, logins = lumia.adapters.account(NAME, server.name), Logins(server)
    try:
        await lumia.adapters.keeping_up(state, partial(_served, logins, state), partial(_down, logins))
    finally:
        _down(logins, "no longer served by this gateway")


async def _served(logins: Logins, state: lumia.adapters.AccountState, owned: lumia.adapters.Owned) -> None:
    server = logins.server
    state.connecting()

    def told(connected: bool, detail: str) -> None:
        if not connected:
            _log.warning("satori account %s: %s", server.name, detail)
            _down(logins, detail)
        elif server.only is None:
            count = len(logins.known())
            state.connected(f"{count} login{'' if count == 1 else 's'}")
        elif not logins.known():
            state.offline(f"the Satori server has no login {server.self_id} on {server.platform}")

    await Connection(Feed(logins), told, owned.lost).run()


def _down(logins: Logins, why: str) -> None:
    logins.down(why)
    lumia.adapters.account(NAME, logins.server.name).disconnected(why)
