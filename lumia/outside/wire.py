"""Connections to judged addresses on which a deadline holds for every single read, write and handshake.

httpcore's own time-outs begin anew with each read, so a server that drips a byte now and then would hold a thread for
hours. Addresses are given as literals: nothing is resolved again.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore

from lumia.outside.places import Target, left

CONNECT_SECONDS = 5.0
"""How long one of several addresses may take."""


class Wire(httpcore.NetworkBackend):
    """Connects to a target's addresses, in their order, and to nothing else. until: a moment of `time.monotonic`."""

    def __init__(self, target: Target, until: float) -> None:
        self._target, self._until = target, until

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Return a connection to the first address that takes one."""
        failures = []
        for address in self._target.addresses:
            try:
                return Stream(self._connected(address), self._until)
            except OSError as error:
                failures.append(f"{address}: {error.strerror or error}")
        raise httpcore.ConnectError("; ".join(failures))

    def _connected(self, address: str) -> socket.socket:
        seconds = left(self._until)
        if seconds <= 0:
            raise TimeoutError("no time left")
        plain = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            plain.settimeout(min(CONNECT_SECONDS, seconds))
            plain.connect((address, self._target.port))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            plain.close()
            raise
        return plain


class Stream(httpcore.NetworkStream):
    """A connection that ends at its deadline."""

    def __init__(self, plain: socket.socket, until: float) -> None:
        self._socket, self._until = plain, until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has come."""
        with _as(httpcore.ReadTimeout, httpcore.ReadError):
            self._limit()
            return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        rest = memoryview(buffer)
        with _as(httpcore.WriteTimeout, httpcore.WriteError):
            while rest:
                self._limit()
                rest = rest[self._socket.send(rest) :]

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the connection encrypted, with the certificate checked for `server_hostname`."""
        try:
            with _as(httpcore.ConnectTimeout, httpcore.ConnectError):
                self._limit()
                return Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._until)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore asks about: the TLS connection, to see which protocol was agreed on."""
        return self._socket if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket) else None

    def _limit(self) -> None:
        seconds = left(self._until)
        if seconds <= 0:
            raise TimeoutError("no time left")
        self._socket.settimeout(seconds)


@contextmanager
def _as(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Turn the socket's errors into httpcore's."""
    try:
        yield
    except TimeoutError as error:
        raise late("no time left") from error
    except OSError as error:
        raise broken(getattr(error, "verify_message", "") or error.strerror or str(error)) from error
