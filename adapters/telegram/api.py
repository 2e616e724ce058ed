"""Calls to the Bot API. The token is in every URL: no URL leaves this module, in a log or an error."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLContext
from typing import Any

import httpx

import lumia

from .accounts import Account

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_TOKEN = re.compile(r"\b(bot)?\d{1,20}:[A-Za-z0-9_-]{10,128}")
_lock = threading.Lock()
_clients: dict[tuple[int, str], httpx.Client] = {}


class ApiError(lumia.errors.LumiaError):
    """Telegram refused a call. code: HTTP status; retry_after: seconds, 0.0 if it names none; migrated_to: a new id."""

    def __init__(self, method: str, code: int, description: str, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"Telegram answered {method} with {code}: {description}")
        self.code, self.description = code, description
        given = parameters or {}
        wait, moved = given.get("retry_after"), given.get("migrate_to_chat_id")
        self.retry_after = float(wait) if isinstance(wait, (int, float)) else 0.0
        self.migrated_to = str(moved) if type(moved) is int else ""


class OutcomeError(lumia.errors.LumiaError):
    """The request went out and no answer came back, or none that says whether it was done."""


class NoAnswerError(lumia.errors.LumiaError):
    """Telegram can't be reached: nothing went out."""


def hide(text: str) -> str:
    """Return `text` without bot tokens."""
    return _TOKEN.sub(lambda found: f"{found[1] or ''}***", text)


class _Hiding(logging.Filter):
    """httpx logs every URL at INFO, and httpcore some at DEBUG."""

    def filter(self, record: logging.LogRecord) -> bool:
        shown = record.getMessage()
        if ":" in shown and (hidden := hide(shown)) != shown:
            record.msg, record.args = hidden, ()
        return True


def _quiet(*names: str) -> None:
    for name in names:
        logger = logging.getLogger(name)
        if not any(isinstance(one, _Hiding) for one in logger.filters):
            logger.addFilter(_Hiding())


_quiet("httpx", "httpcore", "httpcore.http11", "httpcore.connection", "httpcore.proxy")


def call(
    account: Account,
    method: str,
    params: Mapping[str, Any] | None = None,
    files: Mapping[str, tuple[str, bytes, str]] | None = None,
) -> Any:
    """Make a call and return its result.

    files: field → (name, bytes, media type), which makes it multipart. Raises `ApiError`, `NoAnswerError` when nothing
    went out and `OutcomeError` when nobody knows what became of it.
    """
    body: dict[str, Any] = {"json": params or {}}
    if files:
        body = {"data": {key: _field(value) for key, value in (params or {}).items()}, "files": files}
    try:
        answer = _client(account).post(_url(account, method), **body)
    except httpx.HTTPError as error:
        raise failed(method, error) from None
    return result(method, answer.status_code, answer.content)


async def acall(
    client: httpx.AsyncClient,
    account: Account,
    method: str,
    params: Mapping[str, Any] | None = None,
    patience: float = 30.0,
) -> Any:
    """Make a call on the event loop, waiting up to `patience` seconds; as `call`, without files."""
    limit = httpx.Timeout(patience, connect=10.0)
    try:
        answer = await client.post(_url(account, method), json=params or {}, timeout=limit)
    except httpx.HTTPError as error:
        raise failed(method, error) from None
    return result(method, answer.status_code, answer.content)


def download(account: Account, file_id: str, max_bytes: int) -> bytes:
    """Return a file's bytes; raises as `call`, and `ApiError` with code 413 when it is larger than `max_bytes`."""
    path = call(account, "getFile", {"file_id": file_id}).get("file_path")
    if not path:
        raise ApiError("getFile", 404, "no file_path: the file is gone")
    url = f"{account.api_url}/file/bot{account.token}/{str(path).lstrip('/')}"
    found = bytearray()
    try:
        with _client(account).stream("GET", url) as answer:
            if answer.status_code != 200:
                raise ApiError("file download", answer.status_code, "no such file")
            for chunk in answer.iter_bytes():
                found += chunk
                if len(found) > max_bytes:
                    raise ApiError("file download", 413, f"larger than {max_bytes} bytes")
    except httpx.HTTPError as error:
        raise failed("file download", error) from None
    return bytes(found)


def result(method: str, status: int, body: bytes) -> Any:
    """Return what an answer holds; raises `ApiError`, or `OutcomeError` for what the Bot API would never say."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("ok") is True:
        return answer.get("result")
    known = isinstance(answer, dict) and answer.get("ok") is False
    if not known and not 400 <= status < 500:
        raise OutcomeError(f"{method}: {status} and no answer of the Bot API")
    found: dict[str, Any] = answer if isinstance(answer, dict) else {}
    code = found.get("error_code")
    parameters = found.get("parameters")
    raise ApiError(
        method,
        code if type(code) is int else status,
        hide(str(found.get("description") or "no description"))[:500],
        parameters if isinstance(parameters, dict) else None,
    )


def failed(method: str, error: httpx.HTTPError) -> lumia.errors.LumiaError:
    """Return the error of a request without an answer; it says whether something went out."""
    why = f"{method}: {type(error).__name__}: {hide(str(error))}"
    nothing_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError,
                    httpx.UnsupportedProtocol)  # fmt: skip
    return NoAnswerError(why) if isinstance(error, nothing_sent) else OutcomeError(why)


def aclient(account: Account) -> httpx.AsyncClient:
    """Return a client for the event loop, to be closed by the caller."""
    return httpx.AsyncClient(trust_env=False, verify=_trusted(), proxy=account.proxy or None)


def close() -> None:
    """Close this process's connections."""
    with _lock:
        while _clients:
            _clients.popitem()[1].close()


def _client(account: Account) -> httpx.Client:
    key = (os.getpid(), account.proxy)
    with _lock:
        if key not in _clients:
            _clients[key] = httpx.Client(
                timeout=TIMEOUT, trust_env=False, verify=_trusted(), proxy=account.proxy or None
            )
        return _clients[key]


def _url(account: Account, method: str) -> str:
    return f"{account.api_url}/bot{account.token}/{method}"


def _field(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=1)
def _trusted() -> SSLContext:
    return httpx.create_ssl_context(trust_env=False)
