"""The way of a request to its route: one look at the headers, one look-up of the path, no layers between.

What is found here goes straight to the plugin's function. Everything else (404, 405, trailing slashes, WebSockets) goes
to the starlette application behind it, which has the same routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lumia.gateway.connection import EXCHANGE, respond
from lumia.gateway.guards import RAW_SECURITY_HEADERS, Guard, Metered, Refusal, secured, swallow
from lumia.gateway.mounting import refusal
from lumia.gateway.settings import Settings

Endpoint = Callable[[Request], Awaitable[Response]]
REMEMBERED = 256
"""Characters of a path that is remembered at most: anybody may ask for any, and each would be kept."""


class WholeRequest(Request):
    """A request whose body is read in one go, without a generator for its parts."""

    async def body(self) -> bytes:
        """Return the whole body."""
        if hasattr(self, "_body"):
            return self._body
        if self._stream_consumed:
            raise RuntimeError("Stream consumed")
        parts: list[bytes] = []
        while not self._stream_consumed:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            self._stream_consumed = not message.get("more_body", False)
        self._body = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._body


def _securing(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = secured(message.get("headers", ()))
        await send(message)

    return answer


class Front:
    """Guards every connection and finds its route. behind: what serves whatever has no route of its own here."""

    def __init__(self, settings: Settings, routes: Sequence[Route | WebSocketRoute], behind: ASGIApp) -> None:
        self._settings, self._behind = settings, behind
        self._guard = Guard(settings)
        plain = [route for route in routes if isinstance(route, Route)]
        self._exact = {(method, route.path): route for route in reversed(plain) for method in route.methods or ()
                       if "{" not in route.path}  # fmt: skip
        self._others = [route for route in plain if "{" in route.path]
        self._remembered = lru_cache(maxsize=1024)(self._route)

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        why = self._guard.refusal(scope)
        if why is not None:
            await self._refuse(why, scope, receive, _securing(send))
            return
        settings = self._settings
        metered = Metered(receive, settings.max_body, settings.body_timeout, self._guard.too_large)
        endpoint = self._found(scope)
        if endpoint is None:
            await self._behind(scope, metered, _securing(send))
            return
        response = await endpoint(WholeRequest(scope, metered, send))
        exchange: Any = scope.get(EXCHANGE)
        whole = exchange is not None and type(response).__call__ is Response.__call__
        if not whole or not await respond(exchange, response, RAW_SECURITY_HEADERS):
            await response(scope, metered, _securing(send))
        elif response.background is not None:
            await response.background()

    async def websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket, or refuse it before its handshake."""
        why = self._guard.refusal(scope)
        if why is None:
            await self._behind(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": why.why[:120]})

    async def _refuse(self, why: Refusal, scope: Scope, receive: Receive, answer: Send) -> None:
        closing = None
        if why is self._guard.too_large:
            await swallow(receive)
            closing = {"Connection": "close"}
        await refusal(why.status, why.why, closing)(scope, receive, answer)

    def _found(self, scope: Scope) -> Endpoint | None:
        if scope.get("root_path"):
            return None
        find = self._remembered if len(scope["path"]) <= REMEMBERED else self._route
        route, params = find(scope["method"], scope["path"])
        if route is None:
            return None
        scope["app"] = self._behind
        scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, {**params}
        endpoint: Endpoint = route.endpoint
        return endpoint

    def _route(self, method: str, path: str) -> tuple[Route | None, dict[str, Any]]:
        if (exact := self._exact.get((method, path))) is not None:
            return exact, {}
        for one in self._others:
            if found := one.path_regex.match(path):
                if method not in (one.methods or ()):
                    break
                texts = found.groupdict().items()
                return one, {name: one.param_convertors[name].convert(text) for name, text in texts}
        return None, {}
