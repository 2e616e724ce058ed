"""Discord's REST API: one request, its rate limit, and what its answer means for a send (reference.mdx)."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ssl import SSLContext
from typing import Any

import httpx

import lumia
from lumia.errors import LumiaError, RejectedError, RetryAfterError, UnreachableError

from .accounts import Account
from .limits import Limits, Route

AGENT = f"DiscordBot (https://lumia.example, {lumia.__version__})"
_TIMEOUT = httpx.Timeout(15.0, connect=5.0)
_IDS = re.compile(r"/[0-9]{5,20}(?=/|$)")
_TOKEN_IN_PATH = re.compile(r"(/(?:webhooks|interactions)/[0-9]{1,20}/)[^/\s?\"']+")
_MOST_WAIT = 3600.0


class DiscordError(LumiaError):
    """Discord did not say whether it did what it was asked. status: of its answer, 0 when there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class RefusedError(RejectedError):
    """Discord refuses a request for good. status: HTTP's; code: Discord's own, 0 when it gave none."""

    def __init__(self, message: str, status: int, code: int = 0) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Upload:
    """A file of a message."""

    name: str
    data: bytes
    media_type: str


class _Shared:
    """What the bots of a process share: connections, and by token what Discord lets each do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._pid = 0
        self._limits: dict[str, Limits] = {}
        self._dead: set[str] = set()

    def client(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._pid != os.getpid():  # a forked child makes connections of its own
                self._client, self._pid = _client(), os.getpid()
            return self._client

    def limits(self, account: Account) -> Limits:
        with self._lock:
            return self._limits.setdefault(account.token or account.name, Limits())

    def is_dead(self, account: Account) -> bool:
        return account.token in self._dead

    def bury(self, account: Account) -> None:
        self._dead.add(account.token)

    def close(self) -> None:
        with self._lock:
            if self._client is not None and self._pid == os.getpid():
                self._client.close()
            self._client = None
            self._limits.clear()
            self._dead.clear()


shared = _Shared()


def ask(
    account: Account,
    method: str,
    path: str,
    body: Any = None,
    *,
    files: Sequence[Upload] = (),
    bearer: bool = True,
) -> Any:
    """Make one request and return its JSON, None for an empty answer.

    bearer: proved by the bot's token; without, by a token in the path (interactions). Raises `RetryAfterError` when a
    limit says so, before or after asking; `RefusedError` when it will never be done; `UnreachableError` when nothing
    was sent; `DiscordError` when nobody knows.
    """
    route = _route(method, path, free=not bearer)
    limits = shared.limits(account)
    if bearer and (not account.token or shared.is_dead(account)):
        why = "was refused by Discord before" if account.token else "is missing"
        raise RefusedError(f"the token of [accounts.{account.name}] in config/discord.toml {why}; paste a new one", 401)
    wait = limits.take(route)
    if wait > 0:
        raise RetryAfterError(f"Discord's limit of {route.template} is used up", wait=wait)
    answer = _sent(account, method, path, body, files, bearer=bearer)
    limits.learn(route, answer.status_code, answer.headers)
    return _judged(account, route, answer, bearer=bearer)


def _sent(
    account: Account, method: str, path: str, body: Any, files: Sequence[Upload], *, bearer: bool
) -> httpx.Response:
    headers = {"User-Agent": AGENT, **({"Authorization": account.authorization} if bearer else {})}
    given: dict[str, Any] = {"json": body} if body is not None else {}
    if files:
        given = {
            "data": {"payload_json": json.dumps(body, ensure_ascii=False)},
            "files": [(f"files[{n}]", (file.name, file.data, file.media_type)) for n, file in enumerate(files)],
        }
    try:
        return shared.client().request(method, account.api_url + path, headers=headers, **given)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise UnreachableError(f"Discord can't be reached: {type(error).__name__}: {masked(str(error))}") from None
    except httpx.HTTPError as error:
        raise DiscordError(f"Discord gave no answer: {type(error).__name__}: {masked(str(error))}") from None


def _judged(account: Account, route: Route, answer: httpx.Response, *, bearer: bool) -> Any:
    status, told = answer.status_code, _json(answer)
    if answer.is_success:
        if answer.content and told is None:
            raise DiscordError(f"{route.template} answered {status} with no JSON", status)
        return told
    about = told if isinstance(told, Mapping) else {}
    if status == 429:
        everything = bool(about.get("global")) or answer.headers.get("x-ratelimit-global", "").lower() == "true"
        wait = _wait(about.get("retry_after"), answer.headers.get("retry-after"))
        shared.limits(account).hold(route, wait, everything=everything)
        scope = "everything" if everything else route.template
        raise RetryAfterError(f"Discord limits {scope}: again in {wait:g} s", wait=wait)
    if status >= 500 or status == 408:
        raise DiscordError(f"{route.template} answered {status}", status)
    if status == 401 and bearer:
        shared.bury(account)
        raise RefusedError(
            f"Discord refuses the token of [accounts.{account.name}] in config/discord.toml; reset it in the portal "
            "(your application, Bot, Reset Token) and paste the new one",
            401,
        )
    code = about.get("code") if isinstance(about.get("code"), int) else 0
    raise RefusedError(_explained(route, status, about), status, int(code or 0))


def _explained(route: Route, status: int, about: Mapping[str, Any]) -> str:
    detail = json.dumps(about["errors"], ensure_ascii=False)[:500] if about.get("errors") else ""
    told = " ".join(filter(None, (str(about.get("message", ""))[:200], detail)))
    code = f", code {about['code']}" if about.get("code") else ""
    return masked(f"{route.template} answered {status}{code}: {told or 'no reason given'}")


def _wait(*given: Any) -> float:
    for one in given:
        try:
            seconds = float(one)
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return min(max(seconds, 0.05), _MOST_WAIT)
    return 1.0


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json() if answer.content else None
    except ValueError:
        return None


def _route(method: str, path: str, *, free: bool) -> Route:
    path = path.partition("?")[0]
    parts = path.split("/")
    major = "/".join(parts[1:3]) if parts[1] in ("channels", "guilds", "webhooks") and len(parts) > 2 else ""
    bare = _IDS.sub("/{id}", _TOKEN_IN_PATH.sub(r"\1{token}", path))
    return Route(f"{method} {bare}", major, free)


def masked(text: str) -> str:
    """Return text without the interaction tokens that paths hold."""
    return _TOKEN_IN_PATH.sub(r"\1***", text)


class _Masking(logging.Filter):
    """Keeps interaction tokens, which are part of the URL, out of what httpx logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(masked(str(one)) if isinstance(one, httpx.URL) else one for one in record.args)
        return True


_masking = _Masking()


def _client() -> httpx.Client:
    logging.getLogger("httpx").addFilter(_masking)
    return httpx.Client(timeout=_TIMEOUT, trust_env=False, follow_redirects=False, verify=_trusted())


@lru_cache(maxsize=1)
def _trusted() -> SSLContext:
    return httpx.create_ssl_context(trust_env=False)
