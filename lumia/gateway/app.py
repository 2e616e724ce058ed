"""The gateway as an ASGI application."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lumia import runs
from lumia.errors import LumiaError
from lumia.gateway.calls import BusyError, Calls, apart
from lumia.gateway.feed import JournalFeed
from lumia.gateway.front import Front
from lumia.gateway.intake import Intake
from lumia.gateway.mounting import Mount, failure, http_refusal, mounts_of, paths, routes_of
from lumia.gateway.residents import Residents
from lumia.gateway.scope import serving
from lumia.gateway.settings import Settings
from lumia.gateway.sockets import Sockets
from lumia.runtime import active

if TYPE_CHECKING:
    from lumia.generations import Changed
    from lumia.plugin import Plugin
    from lumia.runtime import Runtime

CONSOLE = "/console"


class Gateway:
    """Serves one bot. bot: the runtime whose plugins are mounted. mounts: what is served, by default what they mark."""

    def __init__(self, bot: Runtime, settings: Settings | None = None, mounts: Sequence[Mount] | None = None) -> None:
        self.bot = bot
        self.settings = settings or Settings()
        self.calls = Calls(self.settings.threads, self.settings.waiting)
        self.intake = Intake(bot, self.settings.waiting, self.settings.keep_from)
        self.feed = JournalFeed(runs.tail, runs.cursor)
        self._in_use: Counter[tuple[str, str]] = Counter()
        self._mount(mounts_of(bot, self._in_use) if mounts is None else mounts)
        self.sockets = Sockets(self._websocket, self.settings.socket_rate)
        self.residents = Residents.of(bot)
        self._exchanges: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _mount(self, mounts: Sequence[Mount]) -> None:
        routes = routes_of(mounts)
        self.paths = paths(routes)
        own = [Route("/healthz", self._health), Route("/", self._index)]
        behind = Starlette(
            routes=[*own, *routes], exception_handlers={HTTPException: _http_error, Exception: _unforeseen}
        )
        self._front = Front(self.settings, routes, behind)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._front.websocket(scope, receive, send)

    # --- plugins that are exchanged while it serves

    def switched(self, changed: Changed) -> None:
        """Serve what the bot's plugins mount now; safe for threads."""
        if self._loop is not None and (changed.gone or changed.fresh):
            self._loop.call_soon_threadsafe(self._exchange, changed)

    def is_busy(self, plugin: Plugin) -> bool:
        """Tell whether an old generation of a plugin still serves somebody here."""
        owner = (plugin.name, plugin.generation)
        return self._in_use[owner] > 0 or self.residents.serves(owner)

    def _exchange(self, changed: Changed) -> None:
        self._mount(mounts_of(self.bot, self._in_use))
        owners = {(plugin.name, plugin.generation) for plugin in changed.gone}
        with self.at_work():
            for work in (self.residents.exchange(owners, self.settings.drain), self.sockets.send_away(owners)):
                task = asyncio.create_task(work)
                self._exchanges.add(task)
                task.add_done_callback(self._exchanges.discard)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] not in ("http", "websocket"):
            return
        serve: ASGIApp = self._front.http if scope["type"] == "http" else self.sockets
        if serving.get() is self and active() is self.bot:  # as on every connection of its own server
            await serve(scope, receive, send)
            return
        with self.at_work():
            await serve(scope, receive, send)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Make this the gateway, and its bot the active one, of a block and of the connections made in it."""
        token = serving.set(self)
        try:
            with self.bot.activated():
                yield
        finally:
            serving.reset(token)

    def begin(self) -> None:
        """Start what plugins have run beside the requests; called when the server listens."""
        self.bot.draining = False
        self._loop = asyncio.get_running_loop()
        self.bot.embedding.resume()
        with self.at_work():
            self.residents.start()

    async def drain(self) -> None:
        """End, within the time for it, what goes on beside requests; those in flight go on.

        The steps this process executes for its accounts come first, while their connections are open; then residents
        are cancelled, which gives back what they own, and WebSockets sent away.
        """
        until = time.monotonic() + self.settings.drain
        self.bot.draining = True
        half = self.settings.drain / 2
        if self.bot.embedding.active and not await apart(self.bot.embedding.drain, half):
            self.bot.log.warning("steps still run in this gateway after %g s of draining", half)
        left = until - time.monotonic()
        await asyncio.gather(self.residents.stop(left), self.sockets.go_away(left))
        self.feed.close()

    async def _health(self, request: Request) -> Response:
        failing = {"residents failing": names} if (names := self.residents.failing) else {}
        try:
            health = await self.calls.run(self.bot.transport.health)
        except (LumiaError, BusyError) as error:
            return JSONResponse({"ok": False, "error": str(error)}, 503, {"Retry-After": "2"})
        if health.ok:
            return JSONResponse({"ok": True} | failing)
        return JSONResponse({"ok": False, "error": health.detail}, 503, {"Retry-After": "2"})

    async def _index(self, request: Request) -> Response:
        if CONSOLE in self.paths:
            return RedirectResponse(CONSOLE, 307)
        return JSONResponse({"lumia": "gateway", "paths": self.paths})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return http_refusal(error)


async def _unforeseen(request: Request, error: Exception) -> Response:
    return failure(error, f"{request.method} {request.url.path}")
