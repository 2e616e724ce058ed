"""What OneBot implementations reach us by: reverse WebSockets and HTTP reports (OneBot v11, communication)."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import lumia
from lumia import gateway

from . import accounts, doorkeeper, hub
from .accounts import Account
from .doorkeeper import Refusal, Visitor, refusals
from .frames import identifier, parse
from .station import Station

_CLOSE_TIME = 2.0
_log = logging.getLogger("lumia.onebot")


class ServerSocket:
    """A WebSocket that the OneBot side has opened."""

    def __init__(self, websocket: gateway.WebSocket) -> None:
        self._websocket = websocket
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    async def send(self, text: str) -> None:
        """Hand a frame to the network."""
        if self._closed:
            raise lumia.errors.UnreachableError("the connection of the OneBot side is closed")
        try:
            await self._websocket.send_text(text)
        except (gateway.WebSocketDisconnect, RuntimeError) as error:
            raise lumia.errors.UnreachableError("the connection of the OneBot side is closed") from error

    async def close(self, code: int, reason: str) -> None:
        """Close it and stop reading."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(TimeoutError, gateway.WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(_CLOSE_TIME):
                await self._websocket.close(code, reason)
        if self._reading is not None:
            self._reading.cancel()

    async def run(self, station: Station) -> None:
        """Read until it is closed by either side."""
        self._reading = asyncio.create_task(self._read(station))
        try:
            await asyncio.wait({self._reading})
            if not self._reading.cancelled():
                self._reading.result()
        finally:
            self._closed = True
            self._reading.cancel()

    async def _read(self, station: Station) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            await station.read(self, text if text is not None else message.get("bytes") or b"")


@lumia.web.websocket("/onebot/v11/ws")
async def universal(websocket: gateway.WebSocket) -> None:
    """Serve a reverse connection that carries events and actions."""
    await _serve(websocket, "universal")


@lumia.web.websocket("/onebot/v11/event")
async def event(websocket: gateway.WebSocket) -> None:
    """Serve a reverse connection that carries events."""
    await _serve(websocket, "event")


@lumia.web.websocket("/onebot/v11/api")
async def api(websocket: gateway.WebSocket) -> None:
    """Serve a reverse connection that carries actions."""
    await _serve(websocket, "api")


async def _serve(websocket: gateway.WebSocket, path_role: str) -> None:
    visitor = Visitor.of(websocket, path_role)
    account = doorkeeper.admit(visitor, local=gateway.is_local(websocket))
    station = None if isinstance(account, Refusal) else hub.station(account, visitor.self_id)
    if station is not None and station.link.open and station.link.self_id not in ("", visitor.self_id):
        account, station = _taken(station), None
    if isinstance(account, Refusal) or station is None:
        await _refuse(websocket, account)
        return
    await websocket.accept()  # NapCat waits two seconds for it, so nothing slow comes before
    socket = ServerSocket(websocket)
    try:
        await station.begin(socket, visitor.role)
        await socket.run(station)
    finally:
        station.link.detach(socket)
        await station.end()


def _taken(station: Station) -> Refusal:
    name, other = station.account.name, station.link.self_id
    return Refusal(
        403,
        f"[accounts.{name}] serves bot {other} at the moment; give each bot a table with its self_id in "
        f'{accounts.FILE}, or write self_id = "*" to serve any number of bots',
    )


async def _refuse(websocket: gateway.WebSocket, refusal: Account | Refusal) -> None:
    assert isinstance(refusal, Refusal)
    _log.warning("a OneBot connection was refused: %s", refusal.why)
    await refusals.note()
    await websocket.send_denial_response(gateway.JSONResponse({"error": refusal.why}, refusal.status))


@lumia.web.route("/onebot/v11/http/{account}", methods=["POST"])
async def report(request: gateway.Request) -> gateway.Response:
    """Take an event that is posted; the empty 204 comes after it is stored."""
    account = accounts.find(request.path_params["account"])
    if account is None or not account.enabled:
        raise gateway.HTTPException(404, f"no such account; add [accounts.<name>] to {accounts.FILE}")
    body = await request.body()
    signature = request.headers.get("x-signature", "")
    if not account.signed(body, signature):
        await refusals.note()
        raise gateway.HTTPException(403 if signature else 401, "needs X-Signature: sha1=<hex HMAC-SHA1 of the body>")
    named = request.headers.get("x-self-id", "").strip()
    frame = parse(body)
    self_id = identifier(frame.get("self_id")) or named
    if account.self_id not in ("", self_id):
        raise gateway.HTTPException(403, f"[accounts.{account.name}] is of bot {account.self_id}, this is {self_id}")
    await hub.station(account, self_id).reported(frame)
    return gateway.Response(status_code=204)
