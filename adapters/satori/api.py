"""Satori's HTTP API: one request, and what its answer means for a send (satori.chat, API)."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLContext
from typing import Any

import httpx

import lumia
from lumia.errors import LumiaError, RejectedError, RetryAfterError, UnreachableError

from .accounts import FILE, Login, Server

AGENT = f"Lumia/{lumia.__version__}"
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_MOST_WAIT = 3600.0
_ABSENT = "login not found"
"""What Koishi says, with 403, while a login is not there: nothing was done, and it may come back."""


class SatoriError(LumiaError):
    """The server did not say whether it did what it was asked. status: of its answer, 0 when there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class RefusedError(RejectedError):
    """The server refuses a request for good. status: of its answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Shared:
    """The connections that a process keeps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._pid = 0

    def client(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._pid != os.getpid():  # a forked child makes connections of its own
                self._client = httpx.Client(timeout=_TIMEOUT, trust_env=False, verify=_trusted())
                self._pid = os.getpid()
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None and self._pid == os.getpid():
                self._client.close()
            self._client = None


shared = _Shared()


def ask(server: Server, login: Login | None, method: str, body: Any = None, *, files: Any = None) -> Any:
    """Ask for a method, as `message.create`, and return its JSON, None for an empty answer.

    login: on whose behalf, None for what concerns the server. files: of a form, as httpx takes them. Raises
    `RetryAfterError` when the server says when to come back, `RefusedError` when it will never be done,
    `UnreachableError` when nothing was done, `SatoriError` when nobody knows.
    """
    given: dict[str, Any] = {"files": files} if files is not None else {"json": body if body is not None else {}}
    try:
        answer = shared.client().post(f"{server.api}/{method}", headers=headers(server, login), **given)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise UnreachableError(f"{server.url} can't be reached: {type(error).__name__}: {error}") from None
    except httpx.HTTPError as error:
        raise SatoriError(f"{server.url} gave no answer to {method}: {type(error).__name__}: {error}") from None
    return _judged(server, method, answer)


def headers(server: Server, login: Login | None = None) -> dict[str, str]:
    """Return what says who asks, and for whom."""
    made = {"User-Agent": AGENT}
    if server.token:
        made["Authorization"] = f"Bearer {server.token}"
    if login is not None:
        platform, self_id = _header(login.platform), _header(login.self_id)
        made |= {"Satori-Platform": platform, "Satori-User-ID": self_id}
        made |= {"X-Platform": platform, "X-Self-ID": self_id}  # as they were called before
    return made


def _header(text: str) -> str:
    if not (text.isascii() and text.isprintable() and text == text.strip()):
        raise RejectedError(f"{text[:40]!r} can't be in a header, so Satori has no way to name this login")
    return text


def _judged(server: Server, method: str, answer: httpx.Response) -> Any:
    status = answer.status_code
    if answer.is_success:
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise SatoriError(f"{method} answered {status} with no JSON", status) from None
    told = " ".join(answer.text[:300].split()) or "no reason given"
    if status == 429 or (status == 503 and "retry-after" in answer.headers):
        wait = _wait(answer.headers.get("retry-after", ""))
        raise RetryAfterError(f"the Satori server is busy: {method} again in {wait:g} s", wait=wait)
    if status in (500, 502, 503, 504) or status == 408:
        raise SatoriError(f"{method} answered {status}: {told}", status)
    if status == 403 and _ABSENT in told.lower():
        raise UnreachableError(f"{method}: the login is not at the Satori server now: {told}")
    if status in (401, 403) and not told.startswith("{"):
        told += f"; look at token of [accounts.{server.name}] in {FILE}, and at what the login may do"
    if status in (404, 405, 501):
        told += f"; this platform, or this server, has no {method}"
    raise RefusedError(f"{method} answered {status}: {told}", status)


def _wait(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        return 1.0
    return min(max(seconds, 0.05), _MOST_WAIT) if seconds == seconds else 1.0


@lru_cache(maxsize=1)
def _trusted() -> SSLContext:
    return httpx.create_ssl_context(trust_env=False)


# --- the methods this adapter uses


def logins(server: Server) -> list[Mapping[str, Any]]:
    """Return the logins of a server (`POST /v1/meta`)."""
    told = ask(server, None, "meta")
    found = told.get("logins") if isinstance(told, Mapping) else None
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def login(server: Server, who: Login) -> Mapping[str, Any]:
    """Return what the server says of a login (`login.get`)."""
    told = ask(server, who, "login.get")
    return told if isinstance(told, Mapping) else {}


def create(server: Server, who: Login, channel: str, content: str, referrer: Any = None) -> list[str]:
    """Send a message and return the ids of what it became, as far as the server tells them."""
    body = {"channel_id": channel, "content": content, **({"referrer": referrer} if referrer is not None else {})}
    made = ask(server, who, "message.create", body)
    listed = made if isinstance(made, list) else [made]
    ids = [one.get("id") for one in listed if isinstance(one, Mapping)]
    return [str(id) for id in ids if isinstance(id, str | int) and not isinstance(id, bool) and str(id)]


def update(server: Server, who: Login, channel: str, message_id: str, content: str) -> None:
    """Give a message another content."""
    ask(server, who, "message.update", {"channel_id": channel, "message_id": message_id, "content": content})


def delete(server: Server, who: Login, channel: str, message_id: str) -> None:
    """Take a message back."""
    ask(server, who, "message.delete", {"channel_id": channel, "message_id": message_id})


def direct(server: Server, who: Login, user: str) -> str:
    """Return the channel of private messages with a user, "" where the server names none."""
    made = ask(server, who, "user.channel.create", {"user_id": user})
    return str(made.get("id") or "") if isinstance(made, Mapping) else ""


def upload(server: Server, who: Login, name: str, data: bytes, media_type: str) -> str:
    """Hand a file to the server and return the address that message elements know it by, "" where it names none."""
    made = ask(server, who, "upload.create", files={"file": (name, data, media_type)})
    return str(made.get("file") or "") if isinstance(made, Mapping) else ""
