"""One WebSocket to Discord's Gateway: JSON payloads, zlib-stream, and what may be sent (events/gateway.mdx)."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections import deque
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

import lumia
from lumia.adapters import ClosedError

from .api import AGENT
from .closing import OURS

MOST_SENT = 120
SENT_WINDOW = 60.0
RESERVED = 5
"""Sends per window that only heartbeats may use."""
MOST_BYTES = 64 * 1024 * 1024
_FLUSHED = b"\x00\x00\xff\xff"

_log = logging.getLogger("lumia.discord.socket")
_log.setLevel(logging.INFO)  # what it would say below holds the frames, and the token is in one of them


class Wire:
    """A connection that carries payloads {op, d, s, t}."""

    def __init__(self, socket: ClientConnection, *, compress: bool) -> None:
        self._socket = socket
        self._inflate = zlib.decompressobj() if compress else None
        self._waiting = bytearray()
        self._sent: deque[float] = deque()

    @classmethod
    async def open(cls, url: str, *, compress: bool) -> Wire:
        """Connect; raises `OSError` or `TimeoutError`, or `websockets.exceptions.WebSocketException`."""
        query = {"v": "10", "encoding": "json", **({"compress": "zlib-stream"} if compress else {})}
        socket = await connect(
            f"{url.rstrip('/')}/?{urlencode(query)}",
            user_agent_header=AGENT,
            compression=None,
            ping_interval=None,  # Discord has heartbeats of its own
            close_timeout=1.0,
            open_timeout=10.0,
            max_size=MOST_BYTES,
            max_queue=64,
            proxy=None,
            logger=_log,
        )
        return cls(socket, compress=compress)

    async def receive(self) -> dict[str, Any]:
        """Return the next payload; raises `ClosedError`."""
        while True:
            try:
                frame = await self._socket.recv()
            except ConnectionClosed as error:
                raise ClosedError.of(error) from None
            payload = self._read(frame)
            if payload is not None:
                return payload

    def _read(self, frame: str | bytes) -> dict[str, Any] | None:
        try:
            text = self._inflated(frame) if isinstance(frame, bytes) else frame
            if text is None:
                return None
            payload = json.loads(text)
        except (ValueError, RecursionError, zlib.error) as error:
            raise ClosedError(None, f"a frame can't be read: {error}") from None
        if not isinstance(payload, dict) or not isinstance(payload.get("op"), int):
            raise ClosedError(None, "a frame is no payload of the Gateway")
        return payload

    def _inflated(self, frame: bytes) -> str | None:
        if self._inflate is None:
            return frame.decode()
        self._waiting += frame
        if not self._waiting.endswith(_FLUSHED):
            if len(self._waiting) > MOST_BYTES:
                raise ValueError("too large")
            return None
        text = self._inflate.decompress(bytes(self._waiting), MOST_BYTES)
        self._waiting.clear()
        if self._inflate.unconsumed_tail:
            raise ValueError("too large")
        return text.decode()

    async def send(self, op: int, data: Any) -> None:
        """Send a payload, waiting where Discord's 120 in 60 s are used up; raises `ClosedError`."""
        await self._allowance(urgent=op == 1)
        try:
            await self._socket.send(json.dumps({"op": op, "d": data}, separators=(",", ":")))
        except ConnectionClosed as error:
            raise ClosedError.of(error) from None

    async def _allowance(self, *, urgent: bool) -> None:
        most = MOST_SENT if urgent else MOST_SENT - RESERVED
        while True:
            now = lumia.system.monotonic()
            while self._sent and self._sent[0] <= now - SENT_WINDOW:
                self._sent.popleft()
            if len(self._sent) < most:
                self._sent.append(now)
                return
            await asyncio.sleep(self._sent[0] + SENT_WINDOW - now)

    async def close(self) -> None:
        """End the connection and leave the session resumable."""
        with suppress(Exception):
            await self._socket.close(OURS, "")
