"""What Telegram posts to: one update per request, answered with 200 only after it is stored."""

from __future__ import annotations

import hmac
import json
from typing import Any

import lumia
from lumia import gateway

from . import accounts, identity, taking
from .accounts import NAME, WEBHOOK, Account

HEADER = "x-telegram-bot-api-secret-token"
_RETRY = {"Retry-After": "5"}
refusals = lumia.adapters.Refusals(NAME)


@lumia.web.route("/telegram/{account}", methods=["POST"])
async def post(request: gateway.Request) -> gateway.Response:
    """Accept an update of a bot in mode webhook."""
    account = await _sender(request)
    update = _json(await request.body())
    try:
        me = await identity.known(account)
    except lumia.errors.LumiaError as error:
        if isinstance(error, lumia.errors.BackendUnavailableError):
            raise
        raise gateway.HTTPException(503, "Telegram doesn't say who the bot is; post it again", _RETRY) from None
    await taking.take(account, me, update)
    return gateway.Response(status_code=200)


async def _sender(request: gateway.Request) -> Account:
    """Return whose webhook this is, once the secret header, compared in constant time, proves that Telegram posts."""
    name = request.path_params["account"]
    account = accounts.find(name)
    served = account is not None and account.works and account.mode == WEBHOOK
    wanted = account.webhook_secret() if account is not None and served else ""
    given = request.headers.get(HEADER, "").encode("utf-8", "replace")
    if hmac.compare_digest(given, wanted.encode()) and wanted and account is not None:
        return account
    if account is not None:
        await refusals.note(name)
    if not served:
        raise gateway.HTTPException(404, f"no bot of this name takes a webhook; see [accounts] in config/{NAME}.toml")
    raise gateway.HTTPException(403, "X-Telegram-Bot-Api-Secret-Token is not the one given to setWebhook")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise gateway.HTTPException(400, "the body is not JSON") from None
