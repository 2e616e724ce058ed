"""The gateway as an ASGI application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lumia import runs
from lumia.errors import LumiaError
from lumia.gateway.calls import BusyError, Calls
from lumia.gateway.feed import JournalFeed
from lumia.gateway.guards import BodyLimit, Origins, SecurityHeaders
from lumia.gateway.intake import Intake
from lumia.gateway.mounting import Mount, failure, mounts_of, paths, refusal, routes_of
from lumia.gateway.scope import serving
from lumia.gateway.settings import Settings
from lumia.gateway.sockets import Sockets

if TYPE_CHECKING:
    from lumia.runtime import Runtime

CONSOLE = "/console"


class Gateway:
    """Serves one bot. bot: the runtime whose plugins are mounted. mounts: what is served, by default what they mark."""

    def __init__(self, bot: Runtime, settings: Settings | None = None, mounts: Sequence[Mount] | None = None) -> None:
        self.bot = bot
        self.settings = settings or Settings()
        self.calls = Calls(self.settings.threads, self.settings.waiting)
        self.intake = Intake(bot, self.settings.waiting)
        self.feed = JournalFeed(runs.tail, runs.cursor)
        routes = routes_of(mounts_of(bot) if mounts is None else mounts)
        self.paths = paths(routes)
        own = [Route("/healthz", self._health), Route("/", self._index)]
        inner = Starlette(
            routes=[*own, *routes], exception_handlers={HTTPException: _http_error, Exception: _unforeseen}
        )
        self.sockets = Sockets(Origins(BodyLimit(inner, self.settings), self.settings))
        self._app: ASGIApp = SecurityHeaders(self.sockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] not in ("http", "websocket"):
            return
        token = serving.set(self)
        try:
            with self.bot.activated():
                await self._app(scope, receive, send)
        finally:
            serving.reset(token)

    async def drain(self) -> None:
        """Send WebSockets away; requests in flight go on."""
        await self.sockets.go_away(self.settings.drain)
        self.feed.close()

    async def _health(self, request: Request) -> Response:
        try:
            health = await self.calls.run(self.bot.transport.health)
        except (LumiaError, BusyError) as error:
            return JSONResponse({"ok": False, "error": str(error)}, 503, {"Retry-After": "2"})
        if health.ok:
            return JSONResponse({"ok": True})
        return JSONResponse({"ok": False, "error": health.detail}, 503, {"Retry-After": "2"})

    async def _index(self, request: Request) -> Response:
        if CONSOLE in self.paths:
            return RedirectResponse(CONSOLE, 307)
        return JSONResponse({"lumia": "gateway", "paths": self.paths})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, error.detail or "refused", dict(error.headers or {}))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return failure(error, f"{request.method} {request.url.path}")
