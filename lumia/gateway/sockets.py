"""Open WebSockets, so that a draining gateway can close them with 1001 (going away) and browsers reconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lumia.gateway.mounting import OWNER
from lumia.gateway.settings import Settings

GOING_AWAY = 1001
STOPPING = "the gateway is stopping"
RELOADED = "what serves this was exchanged; connect again"


class Sockets:
    """ASGI middleware that knows the open WebSockets."""

    def __init__(self, app: ASGIApp, rate: float = Settings.socket_rate) -> None:
        self._app, self._rate = app, rate
        self._open: set[_Socket] = set()
        self._changed: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        socket = _Socket(scope, receive, send, self._rate)
        self._open.add(socket)
        self._note_change()
        try:
            await self._app(scope, socket.receive, socket.send)
        finally:
            self._open.discard(socket)
            self._note_change()

    def __len__(self) -> int:
        return len(self._open)

    def _note_change(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def send_away(self, owners: Collection[tuple[str, str]]) -> None:
        """Close the WebSockets that these generations of plugins serve with 1001: their clients find the next one."""
        theirs = [socket for socket in self._open if socket.owner in owners]
        await asyncio.gather(*(socket.go_away(RELOADED) for socket in theirs), return_exceptions=True)

    async def go_away(self, seconds: float) -> None:
        """Close every WebSocket with 1001, also those that open meanwhile, until their functions have returned.

        seconds: the longest to wait for that.
        """
        self._changed = changed = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                while self._open:
                    changed.clear()
                    # One client that is gone, or takes nothing, must not keep the others from their close frame.
                    await asyncio.gather(*(socket.go_away() for socket in self._open), return_exceptions=True)
                    if self._open:
                        await changed.wait()
        except TimeoutError:
            return
        finally:
            self._changed = None


class _Socket:
    """One WebSocket; after it was sent away its function sees a disconnect and can send nothing more."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, rate: float) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._why = STOPPING
        self._leaving = asyncio.Event()
        self._interval, self._free_at = 1 / rate, 0.0

    @property
    def owner(self) -> object:
        """Return the plugin and generation that serve it, None before that is known."""
        return self._scope.get(OWNER)

    async def send(self, message: Message) -> None:
        """Pass a message on to the client."""
        if not self._leaving.is_set():
            await self._send(message)

    async def receive(self) -> Message:
        """Return the client's next message, or a disconnect when the gateway drains.

        A second's worth of messages may come at once; a client that goes on like that is read as slowly as it may send.
        """
        await self._in_turn()
        incoming = asyncio.ensure_future(self._receive())
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait((incoming, leaving), return_when=asyncio.FIRST_COMPLETED)
            if incoming.done():
                return incoming.result()
            return {"type": "websocket.disconnect", "code": GOING_AWAY, "reason": self._why}
        finally:
            incoming.cancel()
            leaving.cancel()

    async def _in_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - 1.0) + self._interval
        if self._free_at > now and not self._leaving.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._free_at - now):
                    await self._leaving.wait()

    async def go_away(self, why: str = STOPPING) -> None:
        """Close it."""
        if not self._leaving.is_set():
            self._why = why
            self._leaving.set()
            await self._send({"type": "websocket.close", "code": GOING_AWAY, "reason": why})
