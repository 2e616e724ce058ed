"""What plugins mount: their marked functions made into routes that can't break each other."""

from __future__ import annotations

import inspect
import logging
import math
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lumia import system
from lumia.errors import BackendUnavailableError, BoxTooLargeError, BusyLaneError, PayloadError, RateLimitedError

if TYPE_CHECKING:
    from lumia.marks import Mark
    from lumia.runtime import Runtime

RETRY_AFTER = "2"
"""Seconds after which a client may try again while the broker is away."""
RESERVED = ("/", "/healthz")
OWNER = "lumia.owner"
"""Where the scope of a WebSocket has the plugin and generation that serve it."""
_log = logging.getLogger("lumia.gateway")


@dataclass(frozen=True)
class Mount:
    """One marked function of a plugin and where it is served. kind: route or websocket.

    in_use: counts, by (plugin, generation), what is being served.
    """

    kind: str
    path: str
    function: Callable[..., Any]
    plugin: str
    methods: tuple[str, ...] = ("GET",)
    generation: str = ""
    in_use: Counter[tuple[str, str]] = field(default_factory=Counter, compare=False)

    @classmethod
    def of(cls, mark: Mark, function: Callable[..., Any], plugin: str) -> Mount:
        """Return the mount that a mark asks for."""
        return cls(mark.kind, mark.id, function, plugin, tuple(mark.options.get("methods", ("GET",))))

    @property
    def owner(self) -> tuple[str, str]:
        """Return plugin and generation."""
        return self.plugin, self.generation

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count something that is being served."""
        self.in_use[self.owner] += 1
        try:
            yield
        finally:
            self.in_use[self.owner] -= 1


def mounts_of(bot: Runtime, in_use: Counter[tuple[str, str]] | None = None) -> list[Mount]:
    """Return what the loaded plugins of a bot mount, in load order. in_use: counts what they are serving."""
    handlers = bot.plugins.handlers("route", "websocket") if bot.plugins is not None else []
    counter = Counter[tuple[str, str]]() if in_use is None else in_use
    return [
        replace(Mount.of(one.mark, one.fn, one.plugin), generation=one.generation, in_use=counter) for one in handlers
    ]


def routes_of(mounts: Iterable[Mount]) -> list[Route | WebSocketRoute]:
    """Return starlette routes; a path that is taken stays with its first owner and the clash is logged."""
    taken: dict[tuple[str, str, str], str] = {}
    routes = [_route(mount) for mount in mounts if _claim(mount, taken)]
    return sorted(routes, key=lambda route: "{" in route.path)


def _claim(mount: Mount, taken: dict[tuple[str, str, str], str]) -> bool:
    slots = [(mount.kind, mount.path, method) for method in (mount.methods if mount.kind == "route" else ("",))]
    owners = {taken[slot] for slot in slots if slot in taken}
    if mount.path in RESERVED:
        owners.add("the gateway")
    if owners:
        _log.error("%s of plugin %s is not served: %s has it already", mount.path, mount.plugin, ", ".join(owners))
        return False
    taken.update(dict.fromkeys(slots, f"plugin {mount.plugin}"))
    return True


def _route(mount: Mount) -> Route | WebSocketRoute:
    if mount.kind == "websocket":
        return WebSocketRoute(mount.path, _guarded_socket(mount))
    return Route(mount.path, _guarded(mount), methods=list(mount.methods))


def _guarded(mount: Mount) -> Callable[[Request], Awaitable[Response]]:
    function = mount.function if inspect.iscoroutinefunction(mount.function) else _in_thread(mount.function)

    owner, in_use = mount.owner, mount.in_use

    async def endpoint(request: Request) -> Response:
        in_use[owner] += 1  # as `serving()` does, for every request
        try:
            response = await function(request)
            if not isinstance(response, Response):
                raise TypeError(
                    f"{mount.function.__qualname__} returned {type(response).__name__}; a route returns a Response"
                )
            if isinstance(response, StreamingResponse):
                response.body_iterator = _counted(response.body_iterator, mount)
            return response
        except HTTPException as error:
            return http_refusal(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return failure(error, f"{request.method} {mount.path} of plugin {mount.plugin}")
        finally:
            in_use[owner] -= 1

    return endpoint


async def _counted(parts: AsyncIterable[Any], mount: Mount) -> AsyncIterator[Any]:
    """A stream is written by the plugin's code long after its function has returned."""
    with mount.serving():
        async for part in parts:
            yield part


def _in_thread(function: Callable[..., Any]) -> Callable[[Request], Awaitable[Any]]:
    return partial(run_in_threadpool, function)


def http_refusal(error: HTTPException) -> Response:
    """Return the answer that an `HTTPException` stands for."""
    return refusal(error.status_code, error.detail or "refused", dict(error.headers or {}))


def failure(error: Exception, where: str) -> Response:
    """Return the answer to a request that failed; what is unexpected is logged under the id the client is told."""
    if isinstance(error, BackendUnavailableError):
        _log.warning("%s: %s", where, error)
        return refusal(503, "the queue does not answer; send it again under the same id", {"Retry-After": RETRY_AFTER})
    if isinstance(error, BusyLaneError):
        status = 429 if isinstance(error, RateLimitedError) else 503
        return refusal(status, str(error), {"Retry-After": str(math.ceil(error.wait))})
    if isinstance(error, BoxTooLargeError):
        return refusal(413, str(error))
    if isinstance(error, PayloadError):
        return refusal(400, str(error))
    error_id = system.new_id()
    _log.error("%s failed, error id %s", where, error_id, exc_info=error)
    return JSONResponse({"error": "internal error, see the gateway's log", "error_id": error_id}, 500)


def refusal(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    """Return `{"error": why}`."""
    return JSONResponse({"error": why}, status, headers)


def _guarded_socket(mount: Mount) -> Callable[[WebSocket], Awaitable[None]]:
    async def endpoint(socket: WebSocket) -> None:
        socket.scope[OWNER] = mount.owner
        with mount.serving():
            await served(socket)

    async def served(socket: WebSocket) -> None:
        try:
            await mount.function(socket)
        except WebSocketDisconnect:
            return
        except Exception as error:
            await _close_failed(socket, error, f"websocket {mount.path} of plugin {mount.plugin}")

    return endpoint


async def _close_failed(socket: WebSocket, error: Exception, where: str) -> None:
    away = isinstance(error, (BackendUnavailableError, BusyLaneError))
    if away:
        _log.warning("%s: %s", where, error)
    else:
        _log.error("%s failed, error id %s", where, system.new_id(), exc_info=error)
    states = (socket.client_state, socket.application_state)
    if WebSocketState.DISCONNECTED not in states:
        await socket.close(1013 if away else 1011)


def paths(routes: Sequence[Route | WebSocketRoute]) -> list[str]:
    """Return the paths of routes, for the index page."""
    return sorted({route.path for route in routes})
