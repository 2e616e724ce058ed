"""What Discord posts: interactions, signed with the application's key (interactions/receiving-and-responding.mdx)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import lumia
from lumia import gateway

from . import accounts, interactions
from .accounts import NAME, Account
from .arrivals import interaction

IN_TIME = 2.5
"""Seconds in which an interaction must be stored: Discord waits for its answer 3 s."""


refusals = lumia.adapters.Refusals(NAME)


@lumia.web.route("/discord/{account}/interactions", methods=["POST"])
async def receive(request: gateway.Request) -> gateway.Response:
    """Answer an interaction; one that says something is stored before."""
    account = accounts.find(request.path_params["account"])
    if account is None or not account.listens:
        raise gateway.HTTPException(404, "no account with a public_key has this name in config/discord.toml")
    body = await request.body()
    await _authenticate(request, account, body)
    data = _read(body)
    lumia.adapters.account(NAME, account.name).event()
    if interactions.is_talk(data):
        await _store(account, data)
    return gateway.JSONResponse(interactions.answer(data))


async def _authenticate(request: gateway.Request, account: Account, body: bytes) -> None:
    signature = request.headers.get("x-signature-ed25519", "")
    timestamp = request.headers.get("x-signature-timestamp", "")
    if interactions.signed(account.public_key, signature, timestamp, body):
        return
    await refusals.note(account.name)
    raise gateway.HTTPException(401, "X-Signature-Ed25519 is not this application's signature of the request")


def _read(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise gateway.HTTPException(400, "the body is no JSON") from None
    if not isinstance(data, dict):
        raise gateway.HTTPException(400, "the body is no JSON object")
    return data


async def _store(account: Account, data: dict[str, Any]) -> None:
    try:
        msg = interactions.read(data, account.name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise gateway.HTTPException(400, f"this is no interaction: {type(error).__name__} {error}") from None
    try:
        async with asyncio.timeout(IN_TIME):
            await interaction(account, data, msg)
    except TimeoutError:
        raise gateway.HTTPException(503, "the queue was too slow for Discord", {"Retry-After": "2"}) from None
