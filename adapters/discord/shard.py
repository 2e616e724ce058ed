"""One shard: a Gateway session that is identified once and resumed as long as Discord lets it (events/gateway.mdx)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from websockets.exceptions import WebSocketException

import lumia
from lumia import gateway
from lumia.adapters import ClosedError, NotAdmittedError, Numbered, until_stored
from lumia.errors import LumiaError

from . import closing
from .accounts import NAME, Account
from .closing import IDENTIFY, REFUSED, RESUME, Next
from .feed import Feed
from .identify import Starts
from .session import Session
from .wire import Wire

DISPATCH, HEARTBEAT, IDENTIFYING, RESUMING, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
SETTLE = (1.0, 5.0)
"""Seconds, by chance, before going on after op 9."""
PATIENCE = 5.0
"""Seconds for which nothing is read while too much waits for the broker; then the connection is given up, to resume."""
_FIRST_WORD = 20.0
_PAUSES = (0.5, 60.0)
_log = logging.getLogger("lumia.discord")


class Shard:
    """Runs one shard. told: called with (shard, connected, detail) as its state changes.

    lost: set when another gateway may have this bot by now, so that nothing is kept any more.
    """

    def __init__(
        self, account: Account, index: int, starts: Starts, told: Callable[[int, bool, str], None], lost: asyncio.Event
    ) -> None:
        self._account, self._index, self._starts, self._told, self._lost = account, index, starts, told, lost
        self._session = Session()
        self._acked = True
        self._failures = 0
        self._saved: tuple[str, int | None] = ("", None)

    async def run(self) -> None:
        """Stay connected until cancelled; raises `lumia.adapters.NotAdmittedError`."""
        state = lumia.adapters.account(NAME, self._account.name)
        load = partial(gateway.call, Session.load, self._account, self._index)
        self._session = await until_stored(state, load, f"session of {self._account.name}") or Session()
        self._feed = Feed(self._account, self._session, partial(self._told, self._index, True))
        self._intake = Numbered(f"{NAME}/{self._account.name}", self._session.seq)
        async with self._intake.kept(self._save):
            while True:
                await self._after(await self._connected())

    async def _after(self, outcome: Next) -> None:
        """Make ready for the next connection; what is being stored goes on, and a lost session is forgotten.

        Discord sends again what a resumed session had not stored, but whether it resumes nobody knows yet. What a lost
        session has sent comes from nowhere else, so that is stored first.
        """
        if self._intake.full or outcome.step != RESUME:
            await self._intake.settle()
        if outcome.step == REFUSED:
            raise NotAdmittedError(outcome.why)
        if outcome.step == IDENTIFY:
            self._session.end()
            self._intake.restart()
        pause = min(_PAUSES[1], _PAUSES[0] * 2 ** max(0, self._failures - 1)) if self._failures else 0.0
        self._told(self._index, False, outcome.why)
        await asyncio.sleep(outcome.wait + pause * (0.5 + lumia.system.random() / 2))

    async def _connected(self) -> Next:
        """Connect once and serve until the connection ends; returns how to go on."""
        self._failures += 1
        try:
            url = self._session.url or await self._starts.url()
            wire = await Wire.open(url, compress=self._account.compress)
        except (OSError, TimeoutError, WebSocketException) as error:
            return self._unreached(error)
        except (LumiaError, gateway.BusyError) as error:
            if getattr(error, "status", 0) == 401:
                return Next(REFUSED, str(error))
            return Next(RESUME if self._session.id else IDENTIFY, str(error), getattr(error, "wait", 0.0))
        try:
            return await self._serve(wire)
        except ClosedError as ended:
            return closing.after(ended.code, ended.reason)
        finally:
            await wire.close()

    def _unreached(self, error: Exception) -> Next:
        self._session.url = "" if self._failures > 3 else self._session.url
        return Next(RESUME if self._session.id else IDENTIFY, f"Discord's Gateway can't be reached: {error}")

    async def _serve(self, wire: Wire) -> Next:
        interval = await self._hello(wire)
        if interval is None:
            return Next(RESUME, "no hello came")
        self._acked = True
        beating = asyncio.create_task(self._beat(wire, interval))
        try:
            await self._begin(wire)
            while True:
                outcome = await self._handle(wire, await wire.receive())
                if outcome is not None:
                    return outcome
                if self._intake.full and not await self._intake.room(PATIENCE):
                    return Next(RESUME, "more arrives than the broker takes", 1.0)
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await beating

    async def _hello(self, wire: Wire) -> float | None:
        try:
            async with asyncio.timeout(_FIRST_WORD):
                payload = await wire.receive()
            interval = float(payload["d"]["heartbeat_interval"]) / 1000
        except (TimeoutError, KeyError, TypeError, ValueError):
            return None
        return interval if payload["op"] == HELLO and interval > 0 else None

    async def _begin(self, wire: Wire) -> None:
        token, session = self._account.token, self._session
        if session.id:
            await wire.send(RESUMING, {"token": token, "session_id": session.id, "seq": self._intake.committed or 0})
            return
        await self._starts.turn(self._index)
        await wire.send(IDENTIFYING, self._starts.identify(self._index))

    async def _beat(self, wire: Wire, interval: float) -> None:
        pause = interval * lumia.system.random()
        while True:
            await asyncio.sleep(pause)
            if not self._acked:
                _log.warning("account %s: Discord does not answer the heartbeat", self._account.name)
                await wire.close()
                return
            self._acked = False
            await self._heartbeat(wire)
            pause = interval

    async def _heartbeat(self, wire: Wire) -> None:
        # The number up to which all is stored, not the last that came: what Discord may forget must be safe.
        with suppress(ClosedError):
            await wire.send(HEARTBEAT, self._intake.committed)

    async def _handle(self, wire: Wire, payload: dict[str, Any]) -> Next | None:
        op, data = payload["op"], payload.get("d")
        if op == DISPATCH:
            self._dispatch(str(payload.get("t")), data if isinstance(data, dict) else {}, payload.get("s"))
        elif op == HEARTBEAT:
            await self._heartbeat(wire)
        elif op == ACK:
            self._acked = True
        elif op == RECONNECT:
            self._failures = 0
            return Next(RESUME, "Discord asked to connect again")
        elif op == INVALID:
            wait = SETTLE[0] + (SETTLE[1] - SETTLE[0]) * lumia.system.random()
            return Next(RESUME if data is True else IDENTIFY, "Discord ended the session", wait)
        return None

    def _dispatch(self, type: str, data: dict[str, Any], seq: Any) -> None:
        if not isinstance(seq, int) or seq <= (self._intake.newest or 0):  # a replay may bring what is being stored
            return
        if type == "READY":
            self._ready(data)
        elif type == "RESUMED":
            self._greeted("resumed")
        lane = self._feed.lane(type, data) if type not in ("READY", "RESUMED") else ""
        if lane:
            self._intake.offer(lane, seq, partial(self._feed.take, type, data, seq))
        else:
            self._intake.skip(seq)

    def _ready(self, data: dict[str, Any]) -> None:
        user, session = data.get("user") or {}, self._session
        session.id, session.url = str(data.get("session_id", "")), str(data.get("resume_gateway_url", ""))
        session.me, session.name = str(user.get("id", "")), str(user.get("username", ""))
        session.application = str((data.get("application") or {}).get("id", ""))
        if self._account.gateway_url and not session.url:
            session.url = self._account.gateway_url
        self._greeted(f"as {session.name}")

    def _greeted(self, detail: str) -> None:
        self._failures = 0
        self._told(self._index, True, self._feed.blind or detail)

    async def _save(self) -> None:
        now = (self._session.id, self._intake.committed)
        if self._session.id and now != self._saved and not self._lost.is_set():
            await gateway.call(self._session.save, self._account, self._index, self._intake.committed)
            self._saved = now
