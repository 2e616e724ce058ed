"""What the webhook mounts on the gateway: posting a message, and asking what became of it."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import quote

import lumia
from lumia import gateway

from . import attachments
from . import body as bodies
from . import source as sources
from .limits import rates
from .source import NAME, Source

_LOOK_AGAIN = 30.0
refusals = lumia.adapters.Refusals(NAME)


@lumia.web.route("/webhook/{source}", methods=["POST"])
async def post(request: gateway.Request) -> gateway.Response:
    """Accept a message; the 202 comes after it is stored."""
    source = _source(request)
    data = await request.body()
    if not source.sent(request.headers, data):
        await _refuse(source)
    wait = rates.take(source)
    if wait:
        raise gateway.HTTPException(429, "too many messages from this source", {"Retry-After": str(math.ceil(wait))})
    try:
        run_id = await bodies.submit(source, bodies.read(data, source))
    except lumia.errors.BlobError as error:
        full = isinstance(error, lumia.errors.BlobWriteError)
        raise gateway.HTTPException(503 if full else 400, str(error), {"Retry-After": "30"} if full else None) from None
    return gateway.Response(f'{{"run_id":"{run_id}"}}', 202, media_type="application/json")


@lumia.web.route("/webhook/{source}/runs/{run_id}")
async def run(request: gateway.Request) -> gateway.Response:
    """Tell what became of a message; the signature of this request is over its path."""
    source = _source(request)
    await _check_path(request, source)
    found = await gateway.call(_result, source, request.path_params["run_id"])
    if found is None:
        raise gateway.HTTPException(404, "this source has no such run, or it is no longer kept")
    return gateway.JSONResponse(found)


@lumia.web.resident
async def tell_of_sources() -> None:
    """Tell how each source fares, also after its settings have changed (`lumia adapters`)."""
    known: set[str] = set()
    while True:
        found = sources.standing()
        for name in known - set(found):
            with suppress(lumia.errors.PayloadError):
                lumia.adapters.account(NAME, name).disconnected("taken out of config/webhook.toml")
        for name, wrong in found.items():
            with suppress(lumia.errors.PayloadError):  # a name that is empty or unprintable; the log tells of it
                state = lumia.adapters.account(NAME, name)
                state.refused(wrong) if wrong else state.listening()
        known = set(found)
        await asyncio.sleep(_LOOK_AGAIN)


@lumia.web.route("/webhook/{source}/media/{digest}")
async def media(request: gateway.Request) -> gateway.Response:
    """Give a file that was sent to this source; the signature of this request is over its path."""
    source = _source(request)
    await _check_path(request, source)
    found = await gateway.call(attachments.opened, source, request.path_params["digest"])
    if found is None:
        raise gateway.HTTPException(404, "this source was sent no such file, or it is no longer kept")
    data, kept = found
    name = quote(kept["name"])
    return gateway.Response(
        data, media_type=kept["media_type"], headers={"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    )


def _source(request: gateway.Request) -> Source:
    name = request.path_params["source"]
    source = sources.find(name)
    if source is None:
        raise gateway.HTTPException(404, sources.how_to_add(name))
    return source


async def _check_path(request: gateway.Request, source: Source) -> None:
    if not source.sent(request.headers, request.scope.get("raw_path") or request.url.path.encode()):
        await _refuse(source)


async def _refuse(source: Source) -> NoReturn:
    await refusals.note(source.name)
    raise gateway.HTTPException(
        401,
        "needs Authorization: Bearer <token>, or X-Lumia-Signature: sha256=<hex HMAC of the body, or of a GET's path>",
        {"WWW-Authenticate": "Bearer"},
    )


def _result(source: Source, run_id: str) -> dict[str, Any] | None:
    record = lumia.runtime.current().transport.run(run_id)
    if record is None or not record.key.startswith(f"{NAME}:{lumia.payloads.escape_id(source.name)}:"):
        return None
    found = lumia.runs.result(run_id)
    if found is None:
        return None
    return {**found.as_dict(), "reason": found.reason, "media": attachments.of_run(source, record.root_id or run_id)}
