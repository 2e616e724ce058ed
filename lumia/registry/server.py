"""`lumia registry serve` as a process: uvicorn around the application until SIGINT or SIGTERM."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from lumia.errors import RegistryError
from lumia.registry.app import application
from lumia.registry.catalogue import Catalogue
from lumia.registry.submitting import Desk

TOKEN = "LUMIA_REGISTRY_TOKEN"


def serve(
    folder: Path, *, host: str, port: int, git_url: str | None, ready: Callable[[str, Catalogue], None] | None = None
) -> None:
    """Serve a folder of repositories. port 0 takes a free one; ready: called with the address once it listens.

    Raises `RegistryError` when the folder or the address can't be had.
    """
    catalogue = Catalogue(folder, git_url)
    desk = Desk(catalogue, os.environ.get(TOKEN), local=_is_loopback(host))
    with _listening(host, port) as listener:
        where = listener.getsockname()
        shown = f"[{where[0]}]" if ":" in where[0] else where[0]
        if ready is not None:
            ready(f"http://{shown}:{where[1]}", catalogue)
        config = uvicorn.Config(
            application(catalogue, desk), log_config=None, log_level="warning", access_log=False, lifespan="off",
            server_header=False, timeout_graceful_shutdown=5,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RegistryError(f"can't listen on {host} port {port}: {error.strerror}; choose another --port") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
