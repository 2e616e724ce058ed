"""Calls to Slack's Web API, and what its errors mean (docs.slack.dev, "Web API").

A call that Slack refuses raises an error that says whether it was surely not done (`lumia.errors.NotDoneError`) and
what to do. Addresses that carry a secret (`response_url`, uploads) never reach a log: the connection is used without
httpx's client, which would write them there.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httpx

import lumia
from lumia.errors import LumiaError, RejectedError, RetryAfterError, UnreachableError

from .accounts import Account

TIMEOUT = httpx.Timeout(15.0, connect=5.0)
UPLOAD_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_RETRY_AFTER = 30.0
"""Seconds to wait where a 429 says nothing."""
_MOST_SECONDS = 3600.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)

_UNCLEAR = frozenset({"fatal_error", "internal_error", "service_unavailable"})
_LATER = {"ratelimited": _RETRY_AFTER, "rate_limited": _RETRY_AFTER, "message_limit_exceeded": 60.0}
_AGAIN = frozenset({"request_timeout", "team_added_to_org", "org_login_required"})
_APP = "on the app's page at api.slack.com/apps"
_WAY_OUT = {
    "channel_not_found": "the bot doesn't see this channel: invite it with /invite @bot, or check the id",
    "not_in_channel": "invite the bot to the channel with /invite @bot, or add the scope chat:write.public",
    "is_archived": "the channel is archived; unarchive it",
    "msg_too_long": "send a shorter text",
    "no_text": "send a text",
    "restricted_action": "an admin of the workspace has forbidden posting here; ask for the right",
    "restricted_action_read_only_channel": "the channel is read-only for the bot; ask its managers",
    "restricted_action_thread_only_channel": 'only replies are allowed here; set reply_in_thread = "always"',
    "restricted_action_non_threadable_channel": 'no threads here; set reply_in_thread = "never"',
    "invalid_auth": f"bot_token is wrong; copy it again from OAuth & Permissions {_APP}",
    "not_authed": f"bot_token is missing; copy it from OAuth & Permissions {_APP}",
    "account_inactive": f"the app was uninstalled or its user removed; install it again {_APP}",
    "token_revoked": f"the token was revoked; install the app again {_APP} and copy the new one",
    "token_expired": "tokens of this app rotate, which the adapter doesn't do; turn token rotation off",
    "missing_scope": f"add the scope under OAuth & Permissions {_APP} and install the app again",
    "not_allowed_token_type": "bot_token begins with xoxb-, app_token with xapp-",
    "user_not_found": "nobody has this user id in the workspace",
    "cannot_dm_bot": "Slack lets a bot write to no other bot",
    "message_not_found": "there is no such message, or it is not the bot's",
    "cant_update_message": "a bot may edit only its own messages",
    "cant_delete_message": "a bot may delete only its own messages",
    "edit_window_closed": "the workspace lets nobody edit messages this old",
    "thread_not_found": "the thread was deleted",
    "link_disabled": f"turn on Socket Mode {_APP}",
}
REFUSED = frozenset(
    {
        "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "missing_scope",
        "not_allowed_token_type", "access_denied", "ekm_access_denied", "enterprise_is_restricted",
    }
)  # fmt: skip
"""Errors that say the credentials are no good."""


class SlackError(RejectedError):
    """Slack has refused a call for good. code: Slack's name for the reason, e.g. `channel_not_found`."""

    def __init__(self, method: str, code: str, more: str = "") -> None:
        way_out = _WAY_OUT.get(code, "see the method's page at docs.slack.dev/reference/methods")
        super().__init__(f"Slack refused {method}: {code}{f' ({more})' if more else ''}; {way_out}")
        self.code = code


class OutcomeError(LumiaError):
    """Nobody knows whether Slack has done what it was asked."""


@dataclass(frozen=True)
class Answer:
    """A call that Slack has done. scopes: what the token may do, as X-OAuth-Scopes says."""

    data: dict[str, Any]
    scopes: frozenset[str] = frozenset()


def call(account: Account, method: str, arguments: Mapping[str, Any], *, token: str = "") -> dict[str, Any]:
    """Call a method as JSON with the bot's token and return its answer, whose `ok` is true."""
    return ask(account, method, arguments, token=token).data


def form(account: Account, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call a method that takes its arguments as a form only, as those of files, users and conversations do."""
    return ask(account, method, arguments, as_form=True).data


def ask(
    account: Account, method: str, arguments: Mapping[str, Any], *, token: str = "", as_form: bool = False
) -> Answer:
    """Call a method; arguments that are None are left out.

    Raises `RetryAfterError`, `SlackError`, `UnreachableError` (all surely not done) or `OutcomeError`.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    headers = {"Authorization": f"Bearer {token or account.bot_token}"}
    if as_form:
        request = _request(account.api_url + method, headers, data=given)
    else:
        body = json.dumps(given, ensure_ascii=False).encode()
        request = _request(
            account.api_url + method, {**headers, "Content-Type": "application/json; charset=utf-8"}, content=body
        )
    return _judged(method, send(request, method))


def upload(url: str, data: bytes) -> None:
    """Post a file's bytes to the address that `files.getUploadURLExternal` gave; nobody sees it yet."""
    try:
        answer = send(
            _request(url, {"Content-Type": "application/octet-stream"}, content=data), "upload", UPLOAD_TIMEOUT
        )
    except OutcomeError as error:
        raise UnreachableError(f"a file's upload failed: {error}") from error
    if not answer.is_success:
        raise UnreachableError(f"a file's upload was answered with {answer.status_code}")


def respond(url: str, body: Mapping[str, Any]) -> None:
    """Post an answer to a command's or a click's `response_url`; it holds for 30 minutes and five answers."""
    answer = send(_request(url, {}, json=dict(body)), "response_url")
    if answer.status_code == 429:
        raise RetryAfterError("Slack asks for a pause of response_url", wait=_wait(answer))
    if answer.status_code >= 500:
        raise OutcomeError(f"Slack answered {answer.status_code} to response_url")
    if not answer.is_success:
        raise SlackError("response_url", "expired_url", f"status {answer.status_code}")


def send(request: httpx.Request, what: str, timeout: httpx.Timeout = TIMEOUT) -> httpx.Response:
    """Send a request and read its answer; redirects are not followed. Raises `UnreachableError` or `OutcomeError`."""
    request.extensions["timeout"] = timeout.as_dict()
    try:
        answer = _transport().handle_request(request)
        try:
            answer.read()
        finally:
            answer.close()
    except _NOT_SENT as error:
        raise UnreachableError(f"Slack can't be reached for {what}: {type(error).__name__}") from error
    except httpx.HTTPError as error:
        raise OutcomeError(f"the answer to {what} was lost: {type(error).__name__}") from error
    return answer


def _judged(method: str, answer: httpx.Response) -> Answer:
    if answer.status_code == 429:
        raise RetryAfterError(f"Slack asks for a pause of {method}", wait=_wait(answer))
    try:
        data = json.loads(answer.content)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        raise OutcomeError(f"Slack answered {answer.status_code} without its usual JSON to {method}")
    if data["ok"]:
        return Answer(data, _scopes(answer))
    raise _failure(method, data, answer)


def _failure(method: str, data: Mapping[str, Any], answer: httpx.Response) -> LumiaError:
    code = str(data.get("error") or "unknown_error")[:100]
    if code in _LATER:
        return RetryAfterError(f"Slack asks for a pause of {method}: {code}", wait=_wait(answer, _LATER[code]))
    if code in _AGAIN:
        return UnreachableError(f"Slack did not take {method}: {code}")
    if code in _UNCLEAR or answer.status_code >= 500:
        return OutcomeError(f"Slack failed at {method}: {code}")
    return SlackError(method, code, _details(data))


def _details(data: Mapping[str, Any]) -> str:
    needed = data.get("needed")
    if isinstance(needed, str) and needed:
        return f"needs {needed}"[:200]
    metadata = data.get("response_metadata")
    messages = metadata.get("messages") if isinstance(metadata, Mapping) else None
    return "; ".join(map(str, messages))[:300] if isinstance(messages, list) else ""


def _wait(answer: httpx.Response, otherwise: float = _RETRY_AFTER) -> float:
    value = answer.headers.get("retry-after", "")
    return min(float(value), _MOST_SECONDS) if value.isascii() and value.isdigit() else otherwise


def _scopes(answer: httpx.Response) -> frozenset[str]:
    return frozenset(filter(None, (scope.strip() for scope in answer.headers.get("x-oauth-scopes", "").split(","))))


def _request(url: str, headers: Mapping[str, str], **body: Any) -> httpx.Request:
    try:
        return httpx.Request("POST", url, headers={"User-Agent": f"Lumia/{lumia.__version__}", **headers}, **body)
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise RejectedError(
            "an address or a token can't be used as it is written; look at the account's settings"
        ) from error


@lru_cache(maxsize=1)
def _transport() -> httpx.HTTPTransport:
    transport = httpx.HTTPTransport(trust_env=False, limits=httpx.Limits(max_connections=64, keepalive_expiry=5.0))
    atexit.register(transport.close)
    return transport
