"""What Slack posts to: one address for events, slash commands and interactivity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import lumia
from lumia import gateway

from . import accounts, receive
from .accounts import NAME, Account
from .signature import SIGNATURE, is_signed

IN_TIME = 2.5
"""Seconds for storing what was posted; Slack waits three in all."""
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 100
_NEVER_AGAIN = {"X-Slack-No-Retry": "1"}
refusals = lumia.adapters.Refusals(NAME)


@lumia.web.route("/slack/{account}/events", methods=["POST"])
async def events(request: gateway.Request) -> gateway.Response:
    """Take what Slack posts; the 200 comes after it is stored."""
    account = _account(request.path_params["account"])
    data = await request.body()
    if not is_signed(account.signing_secret, request.headers, data, lumia.system.now()):
        return await _unproven(account, request, data)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        return await _posted_form(account, _fields(data))
    return await _posted_json(account, _object(data))


def _account(name: str) -> Account:
    account = accounts.find(name)
    if account is None:
        raise gateway.HTTPException(404, accounts.how_to_add(name))
    if account.socket:
        raise gateway.HTTPException(404, f'account {name} uses Socket Mode; set mode = "events" in {accounts.FILE}')
    return account


async def _unproven(account: Account, request: gateway.Request, data: bytes) -> gateway.Response:
    if SIGNATURE not in request.headers and b"ssl_check=1" in data.split(b"&"):
        return gateway.Response()  # Slack looks at our certificate; nothing is accepted by it
    await refusals.note(account.name)
    raise gateway.HTTPException(401, "this was not signed by Slack with the account's signing_secret, or long ago")


async def _posted_json(account: Account, body: Mapping[str, Any]) -> gateway.Response:
    if body.get("type") == "url_verification":
        return gateway.JSONResponse({"challenge": str(body.get("challenge", ""))})
    await receive.within(IN_TIME, account, receive.event(account, body))
    return gateway.Response()


async def _posted_form(account: Account, form: Mapping[str, str]) -> gateway.Response:
    if "payload" in form:
        payload = _object(form["payload"].encode("utf-8", "replace"))
        await receive.within(IN_TIME, account, receive.interaction(account, payload))
    elif form.get("ssl_check") != "1":
        await receive.within(IN_TIME, account, receive.command(account, form))
    return gateway.Response()


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise gateway.HTTPException(400, "body: not JSON", _NEVER_AGAIN) from None
    if not isinstance(found, dict):
        raise gateway.HTTPException(400, "body: a JSON object is expected", _NEVER_AGAIN)
    return found


def _fields(data: bytes) -> dict[str, str]:
    try:
        text = data.decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="replace"))
    except ValueError:
        raise gateway.HTTPException(400, "body: not a form", _NEVER_AGAIN) from None
