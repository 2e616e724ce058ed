"""A real gateway on a loopback port, in front of a bot in memory whose workers are threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from lumia.gateway.app import Gateway
from lumia.gateway.mounting import Mount
from lumia.gateway.server import Server, listen
from lumia.gateway.settings import Settings
from lumia.paths import base
from lumia.testing import Bot
from tests.support.wait import until

CONSOLE = base() / "adapters" / "console"
WEBHOOK = base() / "adapters" / "webhook"
ONEBOT = base() / "adapters" / "onebot"


@dataclass
class Served:
    """A running gateway. url: http://127.0.0.1:port; client: an HTTP client for it."""

    bot: Bot
    gateway: Gateway
    server: Server
    thread: threading.Thread
    port: int
    client: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Let the server drain, as SIGTERM does, and wait until it has."""
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive(), "the gateway did not stop"

    def start(self) -> None:
        """Listen again on the same port, after `stop`."""
        self.server, self.thread = _start(self.gateway, listen(self.gateway.settings))


def _start(gateway: Gateway, listening: socket.socket) -> tuple[Server, threading.Thread]:
    server = Server(gateway)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="gateway")
    thread.start()
    until(lambda: server.started, what="the gateway to listen")
    return server, thread


@contextmanager
def served(
    *what: ModuleType | Any | str | Path,
    mounts: Sequence[Mount] | None = None,
    settings: Settings | None = None,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int = 2,
) -> Iterator[Served]:
    """Serve a bot made of `what` (as `lumia.testing.Bot` takes it)."""
    with Bot(*what, config=config) as bot:
        bot.transport.serve(bot.runtime, threads=workers)
        wanted = replace(settings or Settings(), port=0)
        listening = listen(wanted)
        port = listening.getsockname()[1]
        gateway = Gateway(bot.runtime, replace(wanted, port=port), mounts)
        server, thread = _start(gateway, listening)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10) as client:
            running = Served(bot, gateway, server, thread, port, client)
            try:
                yield running
            finally:
                running.stop()
