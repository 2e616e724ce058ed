"""What stands before every route: who may ask, for how much, and what browsers may do with the answer.

A page of another site can make a browser send requests here, also to a loopback address, so names (DNS rebinding) and
origins (cross-site posts and WebSockets) are checked before anything else. One look at the headers serves all checks.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from lumia.gateway.scope import host_name
from lumia.gateway.settings import Settings, is_loopback

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
RAW_SECURITY_HEADERS = tuple((name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items())
_NAMES = frozenset(name for name, _ in RAW_SECURITY_HEADERS)
_DIGITS = 18
_DRAINED = 32 * 1_048_576
_DRAIN_TIME = 5.0

Headers = Iterable[tuple[bytes, bytes]]


def secured(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return an answer's headers with those that a route has not set itself."""
    found = list(headers)
    set_already = _NAMES.intersection([name for name, _ in found])
    return [*found, *(pair for pair in RAW_SECURITY_HEADERS if pair[0] not in set_already)]


@dataclass(frozen=True)
class Refusal:
    """Why a request gets no further."""

    status: int
    why: str


HOST = Refusal(421, "this host name is not served here; add it to `hosts` under [gateway] in config/lumia.toml")
ORIGIN = Refusal(
    403, "pages of other sites may not do this; add theirs to `origins` under [gateway] in config/lumia.toml"
)


class Guard:
    """Judges requests by their headers: unknown host names, other sites' pages, bodies that say they are too large."""

    def __init__(self, settings: Settings) -> None:
        hosts = frozenset(host_name(host) for host in settings.hosts)
        any_host = not settings.loopback and not settings.hosts
        self._origins = frozenset(settings.origins)
        self._limit = settings.max_body
        self.too_large = Refusal(
            413, f"the body is larger than {self._limit} bytes, see `max_body` under [gateway] in config/lumia.toml"
        )

        @lru_cache(maxsize=256)
        def served(header: bytes) -> bool:
            name = host_name(header.decode("latin-1"))
            return any_host or is_loopback(name) or name in hosts

        self._served = served

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why a connection is refused, None when it may go on."""
        host, origin, site, length = b"", None, b"none", b""
        for name, value in scope["headers"]:
            if name == b"host":
                host = host or value
            elif name == b"origin":
                origin = value if origin is None else origin
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"content-length":
                length = value
        if not self._served(host) and scope["path"] != "/healthz":
            return HOST
        safe = scope["type"] == "http" and scope["method"] in SAFE_METHODS
        if not safe and not self._may_write(host, origin, site):
            return ORIGIN
        if length and scope["type"] == "http" and self._too_long(length):
            return self.too_large
        return None

    def _too_long(self, length: bytes) -> bool:
        return length.isdigit() and (len(length) > _DIGITS or int(length) > self._limit)

    def _may_write(self, host: bytes, origin: bytes | None, site: bytes) -> bool:
        if origin is None:
            return site in (b"none", b"same-origin")
        text = origin.decode("latin-1")
        return (bool(host) and _own(text, host.decode("latin-1"))) or text.lower() in self._origins


def _own(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # brackets that are no IPv6 address
        return False


class Metered:
    """A `receive` that counts bytes and seconds until the body is complete: 413 and 408."""

    __slots__ = ("_complete", "_left", "_receive", "_seconds", "_until", "_why")

    def __init__(self, receive: Receive, limit: int, seconds: float, why: Refusal) -> None:
        self._receive, self._left, self._seconds, self._why = receive, limit, seconds, why
        self._until = 0.0
        self._complete = False

    async def __call__(self) -> Message:
        """Return the next part of the body, and what follows it."""
        if self._complete:
            return await self._receive()
        receiving = self._receive()
        waits_for, message = _begun(receiving)
        if message is None:  # else it was here already, as nearly always: no clock is needed
            message = await self._in_time(receiving, waits_for)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            await swallow(self._receive)
            raise HTTPException(self._why.status, self._why.why, {"Connection": "close"})
        self._complete = not message.get("more_body", False)
        return message

    async def _in_time(self, receiving: Any, waits_for: Any) -> Message:
        self._until = self._until or asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(self._until):
                return await _continued(receiving, waits_for)
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly", {"Connection": "close"}) from None


def _begun(receiving: Any) -> tuple[Any, Message | None]:
    """Begin to receive; returns what it waits for, or the message where it waits for nothing."""
    try:
        return receiving.send(None), None
    except StopIteration as done:
        message: Message = done.value
        return None, message


@types.coroutine
def _continued(receiving: Any, waits_for: Any) -> Generator[Any, Any, Message]:
    """Go on with what `_begun` has begun, as `await` would."""
    while True:
        try:
            step, sent = receiving.send, (yield waits_for)
        except BaseException as error:  # a cancellation, which is for whoever waits
            step, sent = receiving.throw, error
        try:
            waits_for = step(sent)
        except StopIteration as done:
            message: Message = done.value
            return message


async def swallow(receive: Receive) -> None:
    """Read on for a while, so that a client that is still sending gets to see the refusal."""
    seen = 0
    try:
        async with asyncio.timeout(_DRAIN_TIME):
            while seen <= _DRAINED:
                message = await receive()
                seen += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return
