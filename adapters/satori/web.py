"""Events that a Satori server posts (satori.chat, Events, WebHook): 2xx only once they are stored."""

from __future__ import annotations

import json
from typing import Any

import lumia
from lumia import gateway

from . import accounts, hub
from .accounts import NAME, WEBHOOK, Server
from .wire import EVENT, META

refusals = lumia.adapters.Refusals(NAME)


@lumia.web.route("/satori/{account}", methods=["POST"])
async def receive(request: gateway.Request) -> gateway.Response:
    """Take one signal."""
    server = await _sender(request)
    opcode = request.headers.get("satori-opcode", "0").strip()
    body = _json(await request.body())
    if opcode == str(EVENT):
        await hub.feed(server).take(body)
    elif opcode == str(META):
        hub.feed(server).meta(body)
    return gateway.Response(status_code=204)


async def _sender(request: gateway.Request) -> Server:
    """Return whose post it is, once its token, compared in constant time, proves that; before the body is read."""
    name = request.path_params["account"]
    server = accounts.find(name)
    serves = server is not None and server.mode == WEBHOOK
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    right = (server or Server("")).told(token.strip() if scheme.lower() == "bearer" else "")
    if server is not None and serves and right:
        return server
    if server is not None:
        await refusals.note(name)
    if not serves:
        raise gateway.HTTPException(404, f'no server of this name posts events; see {accounts.FILE}, mode = "webhook"')
    if not token:
        raise gateway.HTTPException(401, "needs Authorization: Bearer <webhook_token>")
    raise gateway.HTTPException(403, "this is not the webhook_token")


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise gateway.HTTPException(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise gateway.HTTPException(400, "the body is no JSON object")
    return found
