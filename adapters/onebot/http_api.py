"""Asking for actions over HTTP: `POST <url>/<action>` (OneBot v11, communication/http). Synchronous, any worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

import lumia

from .accounts import Account
from .errors import UnknownOutcomeError
from .frames import Answer, answer, parse

_CONNECT = 10.0
_NO_TOKEN = (401, 403)


def ask(account: Account, action: str, params: Mapping[str, Any], wait: float) -> Answer:
    """Return the answer to an action, whatever it says.

    Raises `lumia.errors.UnreachableError` and `RetryAfterError` when it surely was not done, `UnknownOutcomeError` when
    the connection was cut, or the answer took longer than `wait` seconds, or is none.
    """
    headers = {"Content-Type": "application/json", "User-Agent": f"Lumia/{lumia.__version__}"}
    if account.token:
        headers["Authorization"] = f"Bearer {account.token}"
    url, body = f"{account.url.rstrip('/')}/{action}", json.dumps(params, ensure_ascii=False).encode()
    try:
        with httpx.Client(trust_env=False, timeout=httpx.Timeout(wait, connect=_CONNECT)) as client:
            response = client.post(url, content=body, headers=headers)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise lumia.errors.UnreachableError(
            f"nobody answers at the url of [accounts.{account.name}]: {error}"
        ) from None
    except httpx.HTTPError as error:
        raise UnknownOutcomeError(f"{action} went out and its answer never came ({type(error).__name__})") from None
    return _read(account, action, response)


def _read(account: Account, action: str, response: httpx.Response) -> Answer:
    status = response.status_code
    if status in _NO_TOKEN:
        return Answer("failed", 1400 + status % 100, message="the access token is missing or wrong")
    if status == 404:
        return Answer("failed", 1404, message=f"there is no action {action}")
    if status == 429:
        raise lumia.errors.RetryAfterError(f"{account.name} asks too much", _seconds(response))
    if 400 <= status < 500:
        return Answer("failed", 1000 + status, message=f"HTTP {status}")
    try:
        return answer(parse(response.content))
    except lumia.errors.PayloadError:
        raise UnknownOutcomeError(f"{action} was answered with HTTP {status} and no OneBot answer") from None


def _seconds(response: httpx.Response) -> float:
    try:
        return min(600.0, max(0.0, float(response.headers.get("retry-after", "1"))))
    except ValueError:
        return 1.0
