"""Who may open the console: anybody on this machine while there is no token, else who knows it."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

import lumia
from lumia import gateway

from .chat import settings

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

COOKIE = "lumia_console"
_LIFETIME = 30 * 86400
_FAILURES, _WINDOW = 10, 60.0


def access(connection: HTTPConnection) -> str:
    """Return "open", "login" when a token is needed, or "closed" when none is set and the visitor is not local."""
    token = str(settings().token)
    if not token:
        return "open" if gateway.is_local(connection) else "closed"
    return "open" if _valid(connection.cookies.get(COOKIE, ""), token) else "login"


def is_token(given: str) -> bool:
    """Tell whether `given` is the configured token, in constant time; an empty one opens nothing."""
    token = str(settings().token)
    return bool(token) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))


def cookie() -> str:
    """Return a fresh session cookie's value; it dies with the token and after 30 days."""
    until = str(int(lumia.system.now()) + _LIFETIME)
    return f"{until}.{_seal(until, str(settings().token))}"


def keep_in(response: gateway.Response, *, secure: bool) -> gateway.Response:
    """Add the session cookie to a response."""
    response.set_cookie(
        COOKIE, cookie(), max_age=_LIFETIME, path="/console", httponly=True, samesite="strict", secure=secure
    )
    return response


def _valid(value: str, token: str) -> bool:
    until, _, seal = value.partition(".")
    known = hmac.compare_digest(seal.encode("utf-8", "replace"), _seal(until, token).encode())
    return known and until.isdecimal() and int(until) > lumia.system.now()


def _seal(until: str, token: str) -> str:
    digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
    text = f"console session {until} {digest}".encode("utf-8", "replace")
    return hmac.new(lumia.runtime.current().secret, text, hashlib.sha256).hexdigest()


class Attempts:
    """Counts failed logins; ten in a minute close the door for the rest of it."""

    def __init__(self) -> None:
        self._failed: list[float] = []

    def allowed(self) -> bool:
        """Tell whether another token may be tried now."""
        now = lumia.system.monotonic()
        self._failed = [moment for moment in self._failed if now - moment < _WINDOW]
        return len(self._failed) < _FAILURES

    def failed(self) -> None:
        """Note a wrong token."""
        self._failed.append(lumia.system.monotonic())


attempts = Attempts()
