"""Socket Mode: the gateway connects to Slack and confirms each envelope once it is stored.

Frames as in docs.slack.dev, "Using Socket Mode". Before Slack takes a connection away it says so (`disconnect` with
`warning` or `refresh_requested`): the next one is open before the old one goes, and both are listened to meanwhile.
What is not confirmed, Slack sends again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

import lumia
from lumia.adapters import AccountState, Rows
from lumia.errors import LumiaError, RetryAfterError

from . import api, receive
from .accounts import Account

OPENING = 10.0
"""Seconds for the handshake, and again for Slack's `hello`."""
PING = 20.0
"""Seconds between two pings; a connection that answers none for as long is half-open and given up."""
LEAVING = 30.0
"""Seconds that an announced disconnect may take before the old connection is closed from here."""
ROOM = 1000
"""Envelopes that may wait to be stored; further ones wait in the socket."""
REFUSED_PAUSE = 300.0
LONGEST_PAUSE = 60.0
STEADY = 60.0
"""Seconds after which a connection that is lost was a good one, and the next is opened without much ado."""
_MAX_FRAME = 4 * 1024 * 1024
_TURNED_OFF = "link_disabled"
_log = logging.getLogger("lumia.slack")
_socket_log = logging.getLogger("lumia.slack.socket")
_socket_log.setLevel(logging.INFO)  # what it would say below holds the address, whose ticket is a secret


class SocketMode:
    """One account's way to Slack; `run` keeps it up until it is cancelled."""

    def __init__(self, account: Account, state: AccountState) -> None:
        self._account, self._state = account, state
        self._links: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Keep a connection open; a new one comes at once after Slack announced it, else after a growing pause."""
        failures = 0
        try:
            while True:
                began = lumia.system.monotonic()
                pause = await self._turn()
                well = pause == 0.0 or lumia.system.monotonic() - began > STEADY
                failures = 0 if pause == 0.0 else 1 if well else failures + 1
                growing = min(LONGEST_PAUSE, 2.0 ** min(failures - 1, 6)) * (0.5 + lumia.system.random() / 2)
                await asyncio.sleep(pause if pause >= 0.0 else growing)
        finally:
            for task in self._links:
                task.cancel()
            await asyncio.gather(*self._links, return_exceptions=True)

    async def _turn(self) -> float:
        """Open a connection and wait until another one is due; return the seconds to wait, -1.0 for a growing pause."""
        if not self._links:
            self._state.connecting()
        try:
            link = await self._open()
        except RetryAfterError as error:
            return error.wait
        except api.SlackError as error:
            (self._state.refused if error.code in api.REFUSED else self._state.disconnected)(str(error))
            return REFUSED_PAUSE
        except (LumiaError, OSError, InvalidHandshake, InvalidURI, TimeoutError, ConnectionClosed) as error:
            # What these say may hold the address, whose ticket is a secret.
            self._state.disconnected(
                f"no connection: {error if isinstance(error, LumiaError) else type(error).__name__}"
            )
            return -1.0
        self._state.connected(link.greeting)
        await link.due.wait()
        return self._after(link)

    def _after(self, link: Link) -> float:
        if link.reason == _TURNED_OFF:
            self._state.refused(str(api.SlackError("Socket Mode", _TURNED_OFF)))
            return REFUSED_PAUSE
        if not link.reason:
            self._state.disconnected("the connection was lost")
        return 0.0 if link.reason else -1.0

    async def _open(self) -> Link:
        url = await asyncio.to_thread(open_url, self._account)
        socket = await connect(
            url, open_timeout=OPENING, ping_interval=PING, ping_timeout=PING, close_timeout=2.0, max_size=_MAX_FRAME,
            proxy=None, user_agent_header=f"Lumia/{lumia.__version__}", logger=_socket_log,
        )  # fmt: skip
        link = Link(self._account, socket, self._state)
        task = asyncio.create_task(link.serve())
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        try:
            async with asyncio.timeout(OPENING):
                await link.ready.wait()
        except BaseException:
            task.cancel()
            raise
        if not link.greeting:
            raise api.OutcomeError("Slack closed the connection before it said hello")
        return link


def open_url(account: Account) -> str:
    """Return a fresh address for one connection; it holds a ticket and is a secret."""
    url = str(api.call(account, "apps.connections.open", {}, token=account.app_token).get("url", ""))
    if urlsplit(url).scheme != "wss" and urlsplit(account.api_url).scheme == "https":
        raise api.OutcomeError("apps.connections.open gave no wss address")
    return url


class Link:
    """One connection. ready: Slack has said hello, or never will; due: another connection is wanted; reason: why."""

    def __init__(self, account: Account, socket: ClientConnection, state: AccountState) -> None:
        self._account, self._socket, self._state = account, socket, state
        self._rows = Rows(self._not_stored, ROOM)
        self._closing: asyncio.TimerHandle | None = None
        self.ready, self.due = asyncio.Event(), asyncio.Event()
        self.greeting = self.reason = ""

    async def serve(self) -> None:
        """Read frames until the connection ends."""
        try:
            async for frame in self._socket:
                await self._read(frame)
        except ConnectionClosed:
            pass
        finally:
            if self._closing is not None:
                self._closing.cancel()
            self.ready.set()
            self.due.set()
            self._rows.cancel()
            await self._socket.close()

    async def _read(self, frame: str | bytes) -> None:
        said = _object(frame)
        kind = said.get("type")
        if kind == "hello":
            info = said.get("connection_info")
            self.greeting = f"Socket Mode, app {info.get('app_id', '?') if isinstance(info, Mapping) else '?'}"
            self.ready.set()
        elif kind == "disconnect":
            self._leave(str(said.get("reason") or "disconnect"))
        elif isinstance(said.get("envelope_id"), str):
            # Who said it may have to be looked up first: what comes after it in its channel waits.
            await self._rows.put(_channel(said) or said["envelope_id"], partial(self._take, said))

    def _leave(self, reason: str) -> None:
        self.reason = reason
        self.due.set()
        if self._closing is None:
            loop = asyncio.get_running_loop()
            self._closing = loop.call_later(LEAVING, lambda: loop.create_task(self._socket.close()))

    def _not_stored(self, error: Exception) -> None:
        _log.error("account %s: an envelope was not stored, Slack sends it again", self._account.name, exc_info=error)

    async def _take(self, envelope: Mapping[str, Any]) -> None:
        await lumia.adapters.hold(self._state, partial(_store, self._account, envelope))
        try:
            await self._socket.send(json.dumps({"envelope_id": envelope["envelope_id"]}))
        except ConnectionClosed:
            _log.info("account %s: a confirmation came too late, Slack sends that envelope again", self._account.name)


async def _store(account: Account, envelope: Mapping[str, Any]) -> None:
    payload = envelope.get("payload")
    if not isinstance(payload, Mapping):
        return
    kind = envelope.get("type")
    if kind == "events_api":
        await receive.event(account, payload)
    elif kind == "slash_commands":
        await receive.command(account, {key: value for key, value in payload.items() if isinstance(value, str)})
    elif kind == "interactive":
        await receive.interaction(account, payload)


def _channel(envelope: Mapping[str, Any]) -> str:
    """Return the channel an envelope is about, "" for none: what is about none waits for nothing."""
    payload = envelope.get("payload")
    event = payload.get("event") if isinstance(payload, Mapping) else None
    found = event.get("channel") if isinstance(event, Mapping) else None
    return found if isinstance(found, str) else ""


def _object(frame: str | bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
