"""Requests to a registry: time and size limited, redirects never followed, failures in plain words."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lumia import __version__
from lumia.errors import RegistryError
from lumia.pkg.text import plain

CONNECT_SECONDS = 5.0
SECONDS = 20.0
"""Longest time one request may take in all."""
MAX_BYTES = 8 * 1024 * 1024
"""Largest answer, after decompression."""
_NUMBERS = re.compile(r"^\[[^\]]*\] | \(_\w+\.c:\d+\)$")
"""What a system's error has around its words: `[Errno 111] `, ` (_ssl.c:1006)`."""


@dataclass(frozen=True)
class Reply:
    """An answer; headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Clock:
    """Cuts a request's connections when its time is over: a timeout is for one read, and a drip never meets it."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> _Clock:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear of each connection, as an httpx extension."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._open.append(info["return_value"].get_extra_info("socket"))
            if self.over:
                self._cut()

    def _cut(self) -> None:
        self.over = True
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


class Wire:
    """Connections to the registry at `url`."""

    def __init__(self, url: str, *, seconds: float = SECONDS, max_bytes: int = MAX_BYTES) -> None:
        self._url = url
        self._seconds = seconds
        self._max_bytes = max_bytes

    def get(self, path: str, etag: str = "") -> Reply:
        """Return the answer to a GET; with an ETag it may be 304 and have no body."""
        return self._ask("GET", path, {"If-None-Match": etag} if etag else {})

    def post(self, path: str, body: bytes, token: str) -> Reply:
        """Return the answer to a POST of JSON with a bearer token, or with none when it is ""."""
        who = {"Authorization": f"Bearer {token}"} if token else {}
        return self._ask("POST", path, {"Content-Type": "application/json", **who}, body)

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
        import httpx

        common = {"User-Agent": f"lumia-pkg/{__version__}", "Accept": "application/json, application/problem+json"}
        limits = httpx.Timeout(self._seconds, connect=min(CONNECT_SECONDS, self._seconds))
        with (
            _Clock(self._seconds) as clock,
            self._plainly(clock),
            httpx.Client(timeout=limits, follow_redirects=False) as client,
            client.stream(
                method,
                self._url + path,
                headers={**common, **headers},
                content=body,
                extensions={"trace": clock.trace},
            ) as answer,
        ):
            return Reply(answer.status_code, dict(answer.headers.items()), self._body(answer, clock))

    def _body(self, answer: object, clock: _Clock) -> bytes:
        import httpx

        assert isinstance(answer, httpx.Response)
        parts, size = [], 0
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > self._max_bytes:
                raise RegistryError(f"the registry {self._url} answers with more than {self._max_bytes} bytes")
        if clock.over:  # without a length, a cut connection looks like the end
            raise self._late()
        return b"".join(parts)

    def _late(self) -> RegistryError:
        return RegistryError(
            f"the registry {self._url} took longer than {self._seconds:g} s to answer; try again later"
        )

    @contextmanager
    def _plainly(self, clock: _Clock) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.TimeoutException as error:
            raise RegistryError(f"the registry {self._url} doesn't answer in time; try again later") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
            if clock.over:
                raise self._late() from None
            told = plain(_NUMBERS.sub("", str(error)), 200) or type(error).__name__
            raise RegistryError(f"the registry {self._url} can't be reached: {told}") from error
