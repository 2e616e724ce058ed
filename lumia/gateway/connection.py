"""Connections that don't wait for ever: uvicorn's protocols with limits on slow, silent and too many clients.

No timer per request: each connection notes since when it waits, and the server looks through them once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from lumia.gateway.settings import Settings

EXCHANGE = "lumia.exchange"
"""Where the scope of an HTTP request has uvicorn's cycle of it, for `respond`."""
MAX_HEAD = 65_536
"""Bytes of a request line with its headers."""
_CLOSES = b"connection: close\r\n"
_PLAIN = frozenset({b"connection", b"transfer-encoding"})
_BAD = b"HTTP/1.1 400 Bad Request\r\n"
_SLOW = b"HTTP/1.1 408 Request Timeout\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\n"


class _Watched:
    """What both kinds of connection note. settings: of the gateway they belong to."""

    settings: ClassVar[Settings] = Settings()
    loop: Any
    transport: Any
    paused_since = 0.0
    closing_since = 0.0

    def check(self, now: float) -> None:
        """Cut a client that takes nothing of what is written, or whose close can't be written."""
        if not self.closing_since and self.transport.is_closing():
            self.closing_since = now
        since = min(filter(None, (self.paused_since, self.closing_since)), default=now)
        if now - since > self.settings.send_timeout:
            self.transport.abort()


class Connection(_Watched, HttpToolsProtocol):
    """An HTTP connection: its heads come within `head_timeout` and within `MAX_HEAD` bytes."""

    head_since = 0.0
    idle_since = 0.0
    _deaf = False
    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Begin, unless there are too many already: they get a 503."""
        super().connection_made(transport)
        self.head_since = self.loop.time()
        if len(self.connections) > self.settings.connections:
            self._refuse(_FULL, f"more than {self.settings.connections} connections; try again")

    def data_received(self, data: bytes) -> None:
        """Take bytes; as long as they are no whole head, they are counted and the clock runs."""
        if self._deaf or self.transport.is_closing():
            return
        self.idle_since = 0.0
        super().data_received(data)
        if not self._in_head and self.cycle is not None and not self.cycle.response_complete:
            return
        self._head_bytes += len(data)
        self.head_since = self.head_since or self.loop.time()
        if self._in_head and self._head_bytes > MAX_HEAD and not self.transport.is_closing():
            self._refuse(_LARGE, f"request line and headers are larger than {MAX_HEAD} bytes")

    def eof_received(self) -> bool | None:  # type: ignore[override] # asyncio's
        """Answer what was asked before a client said that it sends nothing more."""
        return self._owes() or None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, after the answers to what was asked before it."""
        if not self._owes():
            self._refuse(_BAD, msg)

    def _owes(self) -> bool:
        """Tell whether a whole request waits for its answer; then nothing more is taken, and the last answer closes."""
        if self.cycle is None or self.cycle.more_body or self.cycle.response_started:
            return False
        self._deaf, self.cycle.keep_alive = True, False
        return True

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_response_complete(self) -> None:
        """Go on with the next request, as uvicorn does; when there is none, the clock of an idle connection runs."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self.idle_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """End a head."""
        self._in_head, self._head_bytes, self.head_since = False, 0, 0.0
        super().on_headers_complete()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[EXCHANGE] = self.cycle

    def pause_writing(self) -> None:
        """Note since when the client takes nothing."""
        self.paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self.paused_since = 0.0
        super().resume_writing()

    def check(self, now: float) -> None:
        """Also end a connection whose head does not come, and one that is kept for nothing."""
        super().check(now)
        if self.idle_since and now - self.idle_since > self.timeout_keep_alive:
            self.transport.close()
        busy = self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete)
        if self.head_since and now - self.head_since > self.settings.head_timeout and not busy:
            if self._in_head:
                self._refuse(_SLOW, "the headers came too slowly")
            else:
                self.transport.close()

    def _refuse(self, status: bytes, why: str) -> None:
        body = f'{{"error":"{why}"}}'.encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
        self.transport.write(status + head + body)
        self.transport.close()


class SocketConnection(_Watched, WebSocketsSansIOProtocol):
    """A WebSocket whose peer reads what it is sent."""

    def pause_writing(self) -> None:
        """Note since when the peer takes nothing."""
        self.paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self.paused_since = 0.0
        super().resume_writing()


async def respond(cycle: RequestResponseCycle, response: Response, secured: Sequence[tuple[bytes, bytes]]) -> bool:
    """Write a whole answer at once, as two messages to uvicorn would; False where it has to be these after all.

    secured: headers that every answer gets which has not set them itself. Nearly all answers have the heads of others,
    which are checked and joined once.
    """
    if cycle.response_started or cycle.scope["method"] == "HEAD":
        return False
    found = _head(response.status_code, tuple(response.raw_headers), secured)
    if found is None or found[1] != len(response.body):
        return False
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return True
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    more = [] if cycle.keep_alive else [_CLOSES]
    for name, value in cycle.default_headers:
        more += (name, b": ", value, b"\r\n")
    cycle.transport.write(b"".join((found[0], *more, b"\r\n", response.body)))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


@lru_cache(maxsize=1024)
def _head(
    status: int, headers: Sequence[tuple[bytes, bytes]], secured: Sequence[tuple[bytes, bytes]]
) -> tuple[bytes, int] | None:
    """Return the head of an answer and its Content-Length; None for one that is not that plain."""
    names = [name.lower() for name, _ in headers]
    if names.count(b"content-length") != 1 or not _PLAIN.isdisjoint(names) or status in (204, 304):
        return None
    parts = [STATUS_LINE[status]]
    for name, value in (*headers, *(pair for pair in secured if pair[0] not in names)):
        if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
            return None
        parts += (name.lower(), b": ", value, b"\r\n")
    length = headers[names.index(b"content-length")][1]
    return (b"".join(parts), int(length)) if length.isdigit() else None


def of(settings: Settings) -> tuple[type[Connection], type[SocketConnection]]:
    """Return the two kinds of connection of a gateway with these settings."""
    return (
        type("Connection", (Connection,), {"settings": settings}),
        type("SocketConnection", (SocketConnection,), {"settings": settings}),
    )
