"""Accounts that we connect to (mode `forward`), and those that are asked by HTTP: kept up by one gateway each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect

import lumia
from lumia import gateway

from . import accounts, http_api, hub
from .accounts import Account
from .errors import UnknownOutcomeError
from .frames import Answer, answer, identifier, is_event, parse
from .incoming import NAME, PLATFORM
from .link import ACTION_TIME
from .station import Station

FIRST, SLOWEST, REFUSED = 1.0, 60.0, 60.0
"""Seconds until the first, and at most until every other, try to connect again; after a refused token."""
HTTP_EVERY = 30.0
MAX_FRAME = 64 * 1024 * 1024
_SILENCE = 5.0
_log = logging.getLogger("lumia.onebot")
_socket_log = logging.getLogger("lumia.onebot.socket")
_socket_log.setLevel(logging.INFO)  # what it would say below holds the access token


class RefusedError(Exception):
    """The other side does not want us: wrong token, wrong bot."""


class ClientSocket:
    """A WebSocket that we have opened."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, text: str) -> None:
        """Hand a frame to the network."""
        try:
            await self._connection.send(text)
        except websockets.ConnectionClosed as error:
            raise lumia.errors.UnreachableError("the connection to the OneBot side is closed") from error

    async def close(self, code: int, reason: str) -> None:
        """Close it."""
        await self._connection.close(code if code >= 3000 else 1000, reason)


@lumia.web.resident
async def keep_up() -> None:
    """Say which accounts wait for a connection, and hold the connections that are ours to make."""
    await lumia.adapters.following(NAME, _wanted, _held, names=_names, platform=PLATFORM)


def _wanted() -> set[Account]:
    _tell_others()
    return {account for account in accounts.accounts() if account.mode != "reverse" and account.enabled}


def _names() -> set[str]:
    return {account.name for account in accounts.accounts()} | {fault.account for fault in accounts.faults()}


def _tell_others() -> None:
    for fault in accounts.faults():
        if fault.fatal:
            with suppress(lumia.errors.PayloadError):  # an empty or unprintable name; `lumia doctor` tells of it
                lumia.adapters.account(NAME, fault.account, platform=PLATFORM).refused(f"{fault.what}; {fault.fix}")
    for account in accounts.accounts():
        if not account.enabled:
            lumia.adapters.account(NAME, account.name, platform=PLATFORM).disabled()


async def _held(account: Account) -> None:
    """Keep an account up while this gateway is the one that does."""
    keep = _connected if account.mode == "forward" else _asked
    state = lumia.adapters.account(NAME, account.name, platform=PLATFORM)
    await lumia.adapters.keeping_up(state, lambda owned: keep(account))


# --- forward WebSocket


async def _connected(account: Account) -> None:
    pause = FIRST
    while True:
        station = hub.station(account, account.self_id)
        station.state.connecting(account.url)
        try:
            await _session(account, station)
            pause = FIRST
            why = "the OneBot side closed the connection"
        except RefusedError as refused:
            station.state.refused(str(refused))
            _log.error("onebot account %s: %s", account.name, refused)
            await asyncio.sleep(REFUSED)
            continue
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            why = f"{account.url} can't be reached: {str(error) or type(error).__name__}"
        station.state.disconnected(f"{why}; next try in {pause:g} s")
        await asyncio.sleep(pause * (0.5 + lumia.system.random()))
        pause = min(SLOWEST, pause * 2)


async def _session(account: Account, station: Station) -> None:
    headers = {"Authorization": f"Bearer {account.token}"} if account.token else {}
    try:
        opening = await connect(
            account.url, additional_headers=headers, compression=None, proxy=None, max_size=MAX_FRAME, open_timeout=10,
            user_agent_header=f"Lumia/{lumia.__version__}", logger=_socket_log,
        )  # fmt: skip
    except websockets.InvalidStatus as error:
        status = error.response.status_code
        if status in (401, 403):
            raise RefusedError(f"the OneBot side refuses the access token (HTTP {status})") from None
        raise
    async with opening as connection:
        first = await _first(connection, account)
        socket = ClientSocket(connection)
        try:
            await station.begin(socket, "universal")
            if first is not None:
                await station.read(socket, first)
            async for data in connection:
                await station.read(socket, data)
        finally:
            station.link.detach(socket)
            await station.end()


async def _first(connection: ClientConnection, account: Account) -> str | bytes | None:
    """Return the first frame, None when there is none for a while; a peer that refuses us says so in it (NapCat)."""
    data: str | bytes | None = None
    with suppress(TimeoutError):
        async with asyncio.timeout(_SILENCE):
            data = await connection.recv()
    if data is None:
        return None
    with suppress(lumia.errors.PayloadError):
        frame = parse(data)
        if not is_event(frame):
            if answer(frame).refused_token:
                raise RefusedError("the OneBot side refuses the access token (retcode 1403)")
        elif account.self_id and identifier(frame.get("self_id")) not in ("", account.self_id):
            raise RefusedError(
                f"bot {identifier(frame.get('self_id'))} is at {account.url}, but [accounts.{account.name}] in "
                f"{accounts.FILE} has self_id {account.self_id}"
            )
    return data


# --- HTTP


async def _asked(account: Account) -> None:
    """Look now and then whether the OneBot side answers; when it does again, fetch what was missed."""
    up = False
    while True:
        station = hub.station(account, account.self_id)

        async def ask(action: str, params: Mapping[str, Any]) -> Answer:
            return await gateway.call(http_api.ask, account, action, params, ACTION_TIME)

        try:
            status = await ask("get_status", {})
            was, up = up, _standing(station, status)
            if up and not was:
                await station.catch_up(ask)
        except (lumia.errors.NotDoneError, UnknownOutcomeError, gateway.BusyError) as error:
            up = False
            station.state.disconnected(str(error))
        await asyncio.sleep(HTTP_EVERY)


def _standing(station: Station, status: Answer) -> bool:
    if status.refused_token:
        station.state.refused("the OneBot side refuses the access token")
        return False
    online = status.data.get("online") if isinstance(status.data, Mapping) else None
    station.online(online is not False, "get_status says that the account is offline")
    return status.ok
