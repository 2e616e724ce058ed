"""The gateway as a process: uvicorn around the application, draining on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from lumia.errors import GatewayError
from lumia.following import Follower
from lumia.gateway import connection
from lumia.gateway.app import Gateway
from lumia.gateway.settings import Settings
from lumia.opening import taking

if TYPE_CHECKING:
    from lumia.runtime import Runtime

_log = logging.getLogger("lumia.gateway")
LEAVE_SECONDS = 10.0
"""How long a gateway that leaves because a plugin hangs may take beyond its drain."""


class _Forwarded:
    """Believes a trusted proxy what it says of client and scheme (uvicorn's rules); other requests go straight on."""

    def __init__(self, app: ASGIApp) -> None:
        trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
        self._app, self._told = app, ProxyHeadersMiddleware(app, trusted)  # type: ignore[arg-type]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        for name, _ in scope["headers"]:
            if name.startswith(b"x-forwarded-"):
                return self._told(scope, receive, send)  # type: ignore[arg-type]
        return self._app(scope, receive, send)


class Server(uvicorn.Server):
    """A uvicorn server that sends WebSockets away with 1001 before it waits for requests in flight."""

    def __init__(self, gateway: Gateway, follower: Follower | None = None) -> None:
        settings = gateway.settings
        http, socket = connection.of(settings)
        super().__init__(
            uvicorn.Config(
                _Forwarded(gateway), interface="asgi3", proxy_headers=False, log_config=None, log_level="warning",
                access_log=False, lifespan="off", server_header=False, http=http, ws=socket,
                ws_max_size=settings.max_body, ws_per_message_deflate=False,
                timeout_graceful_shutdown=max(1, int(settings.drain)),
            )
        )  # fmt: skip
        self._gateway, self._follower = gateway, follower

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and start the residents."""
        with self._gateway.at_work():
            await super().startup(sockets)
        if not self.should_exit:
            self._gateway.begin()
            if self._follower is not None:
                await asyncio.to_thread(self._follower.start)

    async def on_tick(self, counter: int) -> bool:
        """Once a second, end connections whose clients are too slow; uvicorn asks ten times a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for one in list(self.server_state.connections):
                if isinstance(one, connection.Connection | connection.SocketConnection):
                    one.check(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, send WebSockets away, finish requests in flight."""
        for server in self.servers:
            server.close()
        if self._follower is not None:
            await asyncio.to_thread(self._follower.stop)
        await self._gateway.drain()
        await super().shutdown(sockets)
        await self._gateway.intake.leave()


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket; raises `GatewayError` when the address is taken or not this machine's.

    Of several processes each has a socket of its own on the port, and the kernel spreads connections over them
    (SO_REUSEPORT, socket(7)).
    """
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        address = (settings.host, settings.port)
        return socket.create_server(address, family=family, backlog=2048, reuse_port=settings.processes > 1)
    except ValueError:
        raise GatewayError(
            "this system can't have several processes listen on one port; set `processes = 1` under [gateway] in "
            "config/lumia.toml"
        ) from None
    except OSError as error:
        raise GatewayError(
            f"the gateway can't listen on {settings.host}:{settings.port}: {error.strerror or error}; stop "
            "what uses the port, or set another `port` under [gateway] in config/lumia.toml"
        ) from error


def serve(bot: Runtime, settings: Settings, deployment: int = 0) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return. deployment: the one whose plugins are loaded."""
    gateway = Gateway(bot, settings)
    takes = taking(
        bot,
        "gateway",
        switched=gateway.switched,
        busy=gateway.is_busy,
        hung=lambda: _leave(settings.drain + LEAVE_SECONDS),
    )
    follower = Follower(bot, takes, deployment)
    server = Server(gateway, follower)
    listening = listen(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _handled)
    _log.info("the gateway serves %s", settings.url)
    server.run(sockets=[listening])
    gateway.intake.close()


def _leave(seconds: float) -> None:
    """End this process so that it is started anew; in `seconds` whatever its threads do."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
    os.kill(os.getpid(), signal.SIGTERM)


def _handled(number: int, frame: Any) -> None:
    """Ignore the signal that uvicorn raises again once it has drained, so that the process ends with code 0."""
