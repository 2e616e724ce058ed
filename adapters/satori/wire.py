"""One WebSocket to a Satori server: signals {op, body} as JSON (satori.chat, Events)."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from lumia.adapters import ClosedError

from .api import AGENT

EVENT, PING, PONG, IDENTIFY, READY, META = range(6)
MOST_BYTES = 64 * 1024 * 1024
_log = logging.getLogger("lumia.satori.socket")
_log.setLevel(logging.INFO)  # what it would say below holds the frames, and the token is in one of them


class Wire:
    """A connection that carries signals."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    @classmethod
    async def open(cls, url: str) -> Wire:
        """Connect; raises `OSError`, `TimeoutError` or `websockets.exceptions.WebSocketException`."""
        socket = await connect(
            url,
            user_agent_header=AGENT,
            ping_interval=None,  # Satori has pings of its own
            close_timeout=1.0,
            open_timeout=10.0,
            max_size=MOST_BYTES,
            max_queue=64,
            proxy=None,
            logger=_log,
        )
        return cls(socket)

    async def receive(self) -> tuple[int, dict[str, Any]]:
        """Return the next signal's op and body; raises `ClosedError`."""
        try:
            signal = json.loads(await self._socket.recv())
        except ConnectionClosed as error:
            raise ClosedError.of(error) from None
        except (ValueError, RecursionError) as error:
            raise ClosedError(None, f"a frame can't be read: {error}") from None
        if not isinstance(signal, dict) or type(signal.get("op")) is not int:
            raise ClosedError(None, "a frame is no signal of Satori")
        body = signal.get("body")
        return signal["op"], body if isinstance(body, dict) else {}

    async def send(self, op: int, body: dict[str, Any]) -> None:
        """Send a signal; raises `ClosedError`."""
        try:
            await self._socket.send(json.dumps({"op": op, "body": body}, separators=(",", ":")))
        except ConnectionClosed as error:
            raise ClosedError.of(error) from None

    async def close(self) -> None:
        """End the connection."""
        with suppress(Exception):
            await self._socket.close(1000, "")
