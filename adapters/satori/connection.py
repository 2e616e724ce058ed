"""One connection to a Satori server's events: identified, pinged, resumed by `sn` (satori.chat, Events, WebSocket)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException

import lumia
from lumia import gateway
from lumia.adapters import ClosedError, NotAdmittedError, Numbered, until_stored

from . import session
from .accounts import FILE, NAME, Server
from .feed import Feed
from .wire import EVENT, IDENTIFY, META, PING, READY, Wire

EVERY = 10.0
"""Seconds between two pings, as the protocol says."""
MISSED = 3
"""Pings without a word of the server after which the connection is taken for dead."""
FIRST_WORD = 10.0
PAUSES = (0.5, 60.0)
REFUSALS = (4004, 4001, 4003, 3000)
"""Codes by which servers say that the token is wrong; the protocol names none."""
_log = logging.getLogger("lumia.satori")


class Connection:
    """Stays connected to one server. told: called with (connected, detail) as that changes.

    lost: set when another gateway may have this server by now, so that nothing is kept any more.
    """

    def __init__(self, feed: Feed, told: Callable[[bool, str], None], lost: asyncio.Event) -> None:
        self._feed, self._told, self._lost = feed, told, lost
        self._server: Server = feed.server
        self._state = lumia.adapters.account(NAME, self._server.name)
        self._failures = 0
        self._silent = 0
        self._saved: int | None = None

    async def run(self) -> None:
        """Stay connected until cancelled; raises `lumia.adapters.NotAdmittedError`."""
        load = partial(gateway.call, session.load, self._server)
        what = f"satori account {self._server.name}: how far its events are stored"
        self._saved = await until_stored(self._state, load, what)
        self._intake = Numbered(f"{NAME}/{self._server.name}", self._saved)
        async with self._intake.kept(self._save):
            while True:
                why = await self._connected()
                self._told(False, why)
                pause = min(PAUSES[1], PAUSES[0] * 2 ** max(0, self._failures - 1))
                await asyncio.sleep(pause * (0.5 + lumia.system.random() / 2))

    async def _take(self, event: dict[str, Any]) -> None:
        what = f"satori account {self._server.name}: event {event.get('sn')}"
        await until_stored(self._state, partial(self._feed.take, event), what)

    async def _connected(self) -> str:
        """Connect once and serve until the connection ends; returns why it did."""
        self._failures += 1
        try:
            wire = await Wire.open(self._server.socket)
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise NotAdmittedError(self._wrong_token(f"HTTP {status}")) from None
            return f"{self._server.socket} answered {status}; look at url of [accounts.{self._server.name}] in {FILE}"
        except (OSError, TimeoutError, WebSocketException) as error:
            return f"{self._server.socket} can't be reached: {str(error) or type(error).__name__}"
        try:
            await self._serve(wire)
        except ClosedError as ended:
            if ended.code in REFUSALS:
                raise NotAdmittedError(self._wrong_token(f"code {ended.code} {ended.reason}".rstrip())) from None
            code = "the connection was cut" if ended.code is None else f"the connection ended with {ended.code}"
            return f"{code}: {ended.reason}" if ended.reason else code
        finally:
            await wire.close()
        return "the server did not answer"

    def _wrong_token(self, said: str) -> str:
        return (
            f"the Satori server refuses the token ({said}): look at token of [accounts.{self._server.name}] in {FILE}"
        )

    async def _serve(self, wire: Wire) -> None:
        """Serve until the connection ends; returns when the server says nothing in time."""
        await wire.send(IDENTIFY, self._identity())
        pinging = asyncio.create_task(self._ping(wire))
        try:
            async with asyncio.timeout(FIRST_WORD) as first:
                while True:
                    op, body = await wire.receive()
                    self._silent = 0
                    if op == READY:
                        first.reschedule(None)
                        self._ready(body)
                    elif op == META:
                        self._feed.meta(body)
                    elif op == EVENT:
                        self._offer(body)
                        if self._intake.full:
                            await self._intake.room()
        except TimeoutError:
            return
        finally:
            pinging.cancel()
            await asyncio.wait([pinging])

    def _offer(self, event: dict[str, Any]) -> None:
        number = event.get("sn", event.get("id"))  # as it was called before
        self._intake.offer(self._feed.lane(event), number if type(number) is int else None, partial(self._take, event))

    def _identity(self) -> dict[str, Any]:
        body: dict[str, Any] = {"token": self._server.token} if self._server.token else {}
        if self._intake.committed is not None:
            body |= {"sn": self._intake.committed, "sequence": self._intake.committed}  # as it was called before
        return body

    def _ready(self, body: dict[str, Any]) -> None:
        self._failures = 0
        self._feed.meta(body)
        given = body.get("logins")
        self._feed.logins.ready(given if isinstance(given, list) else [])
        self._told(True, "")
        if self._feed.logins.dirty:
            self._intake.moved.set()

    async def _ping(self, wire: Wire) -> None:
        self._silent = 0
        with suppress(ClosedError):
            while True:
                await asyncio.sleep(EVERY)
                if self._silent >= MISSED:
                    _log.warning("satori account %s: the server does not answer pings", self._server.name)
                    await wire.close()
                    return
                self._silent += 1
                await wire.send(PING, {})

    async def _save(self) -> None:
        if self._lost.is_set():
            return
        if self._feed.logins.dirty:
            await gateway.call(self._feed.logins.keep)
        number = self._intake.committed
        if number is not None and number != self._saved:
            await gateway.call(session.save, self._server, number)
            self._saved = number
