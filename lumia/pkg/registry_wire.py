"""Requests to a registry: time and size limited, redirects never followed, failures in plain words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from lumia import __version__
from lumia.errors import RegistryError
from lumia.pkg.text import plain

CONNECT_SECONDS = 5.0
SECONDS = 20.0
"""Longest time one request may take in all."""
MAX_BYTES = 8 * 1024 * 1024
"""Largest answer, after decompression."""


@dataclass(frozen=True)
class Reply:
    """An answer; headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
            self._plainly(),
            httpx.Client(timeout=limits, follow_redirects=False) as client,
            client.stream(method, self._url + path, headers={**common, **headers}, content=body) as answer,
        ):
            return Reply(answer.status_code, dict(answer.headers.items()), self._body(answer))

    def _body(self, answer: object) -> bytes:
        import httpx

        assert isinstance(answer, httpx.Response)
        until = time.monotonic() + self._seconds
        parts, size = [], 0
        for part in answer.iter_bytes(65536):
            parts.append(part)
            size += len(part)
            if size > self._max_bytes:
                raise RegistryError(f"the registry {self._url} answers with more than {self._max_bytes} bytes")
            if time.monotonic() > until:
                raise RegistryError(f"the registry {self._url} took longer than {self._seconds:g} s to answer")
        return b"".join(parts)

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.TimeoutException as error:
            raise RegistryError(f"the registry {self._url} doesn't answer in time; try again later") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
            told = plain(str(error), 200) or type(error).__name__
            raise RegistryError(f"the registry {self._url} can't be reached: {told}") from error
