"""The servers of this gateway: which are connected, following the settings as they change."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import lumia
from lumia.errors import LeaseLostError, PayloadError

from . import accounts, hub
from .accounts import NAME, WEBSOCKET, Server
from .connection import Connection, NotAdmittedError
from .feed import Feed
from .logins import Logins

LOOK_EVERY = 1.0
"""Seconds between two looks at the settings."""
REFUSED_PAUSE = 600.0
"""Seconds after a refusal; the token may be put right at the server, of which nobody tells us."""
_log = logging.getLogger("lumia.satori")


async def serve() -> None:
    """Keep every configured server connected, until cancelled."""
    running: dict[str, tuple[Server, asyncio.Task[None]]] = {}
    try:
        while True:
            await _follow(running)
            await asyncio.sleep(LOOK_EVERY)
    finally:
        await _stop([task for _, task in running.values()])


async def _follow(running: dict[str, tuple[Server, asyncio.Task[None]]]) -> None:
    known = accounts.servers()
    wanted = {server.name: server for server in known if server.enabled and server.mode == WEBSOCKET}
    gone = [name for name, (server, _) in running.items() if wanted.get(name) != server]
    await _stop([running.pop(name)[1] for name in gone])
    for name, server in wanted.items():
        if name not in running:
            running[name] = (server, asyncio.create_task(_forever(server), name=f"satori/{name}"))
    for name in gone:
        if name not in wanted:
            lumia.adapters.account(NAME, name).disabled()
    for server in known:
        if not server.enabled:
            lumia.adapters.account(NAME, server.name).disabled()
        elif server.mode != WEBSOCKET:
            lumia.adapters.account(NAME, server.name).listening(f"POST /satori/{server.name}")
    hub.forget({server.name for server in known if server.enabled})
    for fault in accounts.faults():
        with suppress(PayloadError):  # a name that is empty or unprintable; the log and `lumia doctor` tell of it
            lumia.adapters.account(NAME, fault.account).refused(f"{fault.what}; {fault.fix}")


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=5.0)


async def _forever(server: Server) -> None:
    """Connect to one server whenever this gateway holds its lease; what goes wrong ends no other."""
    pause = 1.0
    while True:
        logins = Logins(server)
        try:
            async with lumia.adapters.owning(f"{NAME}/{server.name}") as owned:
                await _served(logins, owned)
        except LeaseLostError:
            _down(logins, "another gateway may have it by now")
            pause = 1.0
        except asyncio.CancelledError:
            _down(logins, "no longer served by this gateway")
            raise
        except Exception:
            _log.exception("satori account %s: its connection failed and is begun again in %g s", server.name, pause)
            _down(logins, "an error of this adapter, see the gateway's log")
        await asyncio.sleep(pause)
        pause = min(60.0, pause * 2)


async def _served(logins: Logins, owned: lumia.adapters.Owned) -> None:
    server = logins.server
    state = lumia.adapters.account(NAME, server.name)
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

    try:
        await Connection(Feed(logins), told, owned.lost).run()
    except NotAdmittedError as refused:
        _log.error("satori account %s: %s; it is tried again in %g minutes, and when its settings change",
                   server.name, refused, REFUSED_PAUSE / 60)  # fmt: skip
        state.refused(str(refused))
        await asyncio.sleep(REFUSED_PAUSE)  # the lease is kept: another gateway would only be refused again


def _down(logins: Logins, why: str) -> None:
    logins.down(why)
    lumia.adapters.account(NAME, logins.server.name).disconnected(why)
