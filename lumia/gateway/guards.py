"""What stands before every route: who may ask, for how much, and what browsers may do with the answer.

Plain ASGI middleware. A page of another site can make a browser send requests here, also to a loopback address, so
names (DNS rebinding) and origins (cross-site posts and WebSockets) are checked before anything else.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
_DRAINED = 32 * 1_048_576
_DRAIN_TIME = 5.0


class SecurityHeaders:
    """Adds the headers a route has not set itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sending)


class Origins:
    """Refuses unknown host names and requests that another site's page makes."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = frozenset(host_name(host) for host in settings.hosts)
        self._any_host = not settings.loopback and not settings.hosts
        self._origins = frozenset(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or refuse it."""
        headers = Headers(scope=scope)
        why = self._wrong_host(scope, headers) or self._wrong_origin(scope, headers)
        if why is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": why[1][:120]})
        else:
            await JSONResponse({"error": why[1]}, why[0])(scope, receive, send)

    def _wrong_host(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        name = host_name(headers.get("host", ""))
        if self._any_host or is_loopback(name) or name in self._hosts or scope["path"] == "/healthz":
            return None
        return 421, "this host name is not served here; add it to `hosts` under [gateway] in config/lumia.toml"

    def _wrong_origin(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
            return None
        origin = headers.get("origin")
        if origin is None and headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return None
        if origin is not None and (self._own(origin, headers.get("host", "")) or origin.lower() in self._origins):
            return None
        return 403, "pages of other sites may not do this; add theirs to `origins` under [gateway] in config/lumia.toml"

    @staticmethod
    def _own(origin: str, host: str) -> bool:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()


class BodyLimit:
    """Refuses bodies that are too large (413) or too slow (408)."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._limit, self._time = settings.max_body, settings.body_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdecimal() and int(declared) > self._limit:
            await _swallow(receive)
            error = JSONResponse({"error": self._too_large()}, 413, {"Connection": "close"})
            await error(scope, receive, send)
            return
        await self._app(scope, _Metered(receive, self._limit, self._time, self._too_large()), send)

    def _too_large(self) -> str:
        return f"the body is larger than {self._limit} bytes, see `max_body` under [gateway] in config/lumia.toml"


class _Metered:
    """A `receive` that counts bytes and seconds until the body is complete."""

    def __init__(self, receive: Receive, limit: int, seconds: float, why: str) -> None:
        self._receive, self._left, self._why = receive, limit, why
        self._until = asyncio.get_running_loop().time() + seconds
        self._complete = False

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()
        message = await self._timed()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            await _swallow(self._receive)
            raise HTTPException(413, self._why, {"Connection": "close"})
        self._complete = not message.get("more_body", False)
        return message

    async def _timed(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                return await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly", {"Connection": "close"}) from None


async def _swallow(receive: Receive) -> None:
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
