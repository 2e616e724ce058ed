"""One request to a judged place, and what came back, as it came: nothing is decompressed, no cookie is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from ssl import SSLContext

import httpcore
import httpx

from lumia.errors import OutsideError, PlaceError
from lumia.outside.places import Places, Target, check, left, port_of, resolve
from lumia.outside.wire import Wire

# At its finest level it logs the headers of answers, and the place a redirect leads to may hold a token.
logging.getLogger("httpcore").setLevel(logging.INFO)

SECONDS = 30.0
PASSING: tuple[type[Exception], ...] = (OSError, httpx.TransportError)
"""What calls made with Python's own means or httpx raise for trouble that may pass."""
_MOVED = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Answer:
    """The head of an answer; `chunks` gives its body. headers: by lower-case name. host: of the last redirect."""

    status: int
    headers: Mapping[str, str]
    host: str
    _response: httpcore.Response
    _seconds: float

    @property
    def phrase(self) -> str:
        """Return the status in words, e.g. `404 Not Found`."""
        known = self.status in HTTPStatus._value2member_map_
        return f"{self.status} {HTTPStatus(self.status).phrase}" if known else str(self.status)

    def chunks(self) -> Iterator[bytes]:
        """Yield the body piece by piece as it was sent, compressed or not; raises `lumia.errors.OutsideError`."""
        with _plainly(self.host, self._seconds):
            yield from self._response.iter_stream()


@contextmanager
def ask(
    method: str,
    url: str,
    *,
    places: Places,
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    seconds: float = SECONDS,
    redirects: int = 0,
) -> Iterator[Answer]:
    """Make a request and give its answer, whatever its status; connections are closed afterwards.

    seconds: for everything together, until the last byte. redirects: how many are followed. Each is judged as the first
    URL was, but for `places.allowed`, which holds for the first host only; none leads from https to http, and `headers`
    go to no other host. Raises `lumia.errors.PlaceError` for a place it may not go to and `OutsideError` for a server
    that can't be reached or breaks off; no path and no header is in their texts.
    """
    until, given = time.monotonic() + seconds, dict(headers or {})
    target = resolve(url, places, seconds)
    for hop in range(redirects + 1):
        with ExitStack() as stack:
            response = stack.enter_context(_answered(method, target, given, content, until, seconds))
            answer = Answer(response.status, _named(response), target.host, response, seconds)
            if not redirects or answer.status not in _MOVED or "location" not in answer.headers:
                yield answer
                return
        if hop == redirects:
            raise OutsideError(f"{target.host}: more than {redirects} redirects", transient=False)
        new, allowed = _moved(target, answer.headers["location"], places)
        if _origin(new) != _origin(target.url):
            given = {}
        target = resolve(str(new), allowed, left(until))


@contextmanager
def _answered(
    method: str, target: Target, headers: Mapping[str, str], content: bytes, until: float, seconds: float
) -> Iterator[httpcore.Response]:
    import lumia

    url = httpcore.URL(
        scheme=target.url.raw_scheme, host=target.url.raw_host, port=target.port, target=target.url.raw_path
    )
    host = {"Host": target.url.netloc.decode("ascii"), "Accept-Encoding": "identity"}
    sent = {"User-Agent": f"Lumia/{lumia.__version__}", **headers, **host, "Connection": "close"}
    if content or method not in ("GET", "HEAD"):
        sent["Content-Length"] = str(len(content))
    with (
        httpcore.ConnectionPool(_trusted(), max_connections=1, network_backend=Wire(target, until)) as pool,
        ExitStack() as stack,
    ):
        with _plainly(target.host, seconds):
            pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()]
            response = stack.enter_context(pool.stream(method, url, headers=pairs, content=content or None))
        yield response


def _moved(target: Target, location: str, places: Places) -> tuple[httpx.URL, Places]:
    """Return where a redirect leads, and what holds there."""
    asked = replace(places, what=f"the redirect of {target.host}")
    try:
        new = target.url.join(location)
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise PlaceError(f"{asked.what}: no URL") from None
    if new.raw_host != target.url.raw_host:
        asked = replace(asked, allowed=(), way_out="")
    if target.url.scheme == "https" and new.scheme == "http":
        raise PlaceError(f"{asked.what}: leads from https to http")
    return check(str(new), asked), asked


def _origin(url: httpx.URL) -> tuple[str, bytes, int]:
    return url.scheme, url.raw_host, port_of(url)


def _named(response: httpcore.Response) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}


@contextmanager
def _plainly(host: str, seconds: float) -> Iterator[None]:
    """Tell in words what went wrong; none of them quotes a path or a header, which may hold a secret."""
    try:
        yield
    except httpcore.ConnectError as error:
        raise OutsideError(f"{host} can't be reached: {error}", sent=False) from None
    except httpcore.ConnectTimeout:
        raise OutsideError(f"{host} can't be reached within {seconds:.3g} s", sent=False) from None
    except httpcore.TimeoutException:
        raise OutsideError(f"{host} has not sent everything within {seconds:.3g} s") from None
    except httpcore.RemoteProtocolError:
        raise OutsideError(f"{host} broke off, or does not speak HTTP") from None
    except (httpcore.LocalProtocolError, UnicodeError):
        raise OutsideError(f"{host}: a header that can't be sent", transient=False, sent=False) from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise OutsideError(f"{host} broke off: {error}") from None


@lru_cache(maxsize=1)
def _trusted() -> SSLContext:
    return httpx.create_ssl_context(trust_env=False)
