"""Posting a reply to a callback: one signed request to a judged address, no redirects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from ssl import SSLContext

import httpx

import lumia

from . import target

TIMEOUT = 10.0
"""Seconds for each of connecting, sending and waiting for the answer's head."""


class CallbackError(lumia.errors.LumiaError):
    """A callback was not taken; the delivery is tried again."""


def post(url: str, data: bytes, headers: Mapping[str, str], allowed: Sequence[str]) -> int:
    """Post `data` and return the status, which is 2xx.

    Raises `CallbackError` when nobody took it, `lumia.errors.PayloadError` when it may not go there.
    """
    try:
        goal = target.resolve(url, allowed)
    except OSError as error:
        raise CallbackError(f"the callback's host has no address: {error}") from error
    failures = []
    with _client() as client:
        for address in goal.addresses:
            try:
                return _posted(client, goal.url, address, data, headers)
            except httpx.ConnectError as error:
                failures.append(f"{address}: {error}")
            except httpx.HTTPError as error:
                raise CallbackError(f"the callback failed: {type(error).__name__}: {error}") from error
    raise CallbackError(f"the callback can't be reached: {'; '.join(failures)}")


def _posted(client: httpx.Client, url: httpx.URL, address: str, data: bytes, headers: Mapping[str, str]) -> int:
    extensions = {"sni_hostname": url.raw_host.decode("ascii")} if url.scheme == "https" else {}
    all_headers = {**headers, "Host": url.netloc.decode("ascii"), "User-Agent": f"Lumia/{lumia.__version__}"}
    goal = url.copy_with(host=address)
    with client.stream("POST", goal, content=data, headers=all_headers, extensions=extensions) as answer:
        if answer.is_success:
            return answer.status_code
        raise CallbackError(f"the callback answered {answer.status_code}, expected 2xx; redirects are not followed")


def _client() -> httpx.Client:
    return httpx.Client(timeout=TIMEOUT, trust_env=False, follow_redirects=False, verify=_trusted())


@lru_cache(maxsize=1)
def _trusted() -> SSLContext:
    return httpx.create_ssl_context(trust_env=False)
