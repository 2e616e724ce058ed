"""Which gateway serves the request at hand."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from lumia.errors import NotRunningError
from lumia.gateway.settings import is_loopback

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from lumia.gateway.app import Gateway

serving: ContextVar[Gateway | None] = ContextVar("lumia_gateway", default=None)
_PROXIED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def current() -> Gateway:
    """Return the gateway that serves this request; raises `NotRunningError` outside of routes."""
    gateway = serving.get()
    if gateway is None:
        raise NotRunningError("no gateway serves this code; call it from a function marked with @lumia.web.route")
    return gateway


def is_local(connection: HTTPConnection) -> bool:
    """Tell whether a request comes straight from this machine: loopback peer, loopback name, no proxy between."""
    peer = connection.client.host if connection.client else ""
    named = is_loopback(host_name(connection.headers.get("host", "")))
    return is_loopback(peer) and named and not any(name in connection.headers for name in _PROXIED)


def host_name(header: str) -> str:
    """Return a Host header without its port, in lower case."""
    if header.startswith("["):
        return header.partition("]")[0].lower() + "]"
    return header.partition(":")[0].lower()
