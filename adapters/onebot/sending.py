"""Doing what `onebot.send` asks for, in the process that holds the connection (any worker for accounts by HTTP)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import lumia

from . import backfill, http_api, hub, intake, outgoing
from .accounts import Account
from .errors import UnknownOutcomeError
from .frames import Answer, identifier, whole
from .incoming import PLATFORM, message_id, time_of
from .link import ACTION_TIME, SEND_TIME
from .station import Station

_COME_BACK = 15.0
"""Seconds that the search for a message waits for a connection."""
_SKEW = 60.0
"""Seconds by which the platform's clock may be behind ours."""
_SPARE = 20.0
_log = logging.getLogger("lumia.onebot")


def ask(account: Account, action: str, params: Mapping[str, Any], wait: float = ACTION_TIME) -> Answer:
    """Ask for an action from a worker's thread; raises as `Link.call` and `http_api.ask` do."""
    if account.mode == "http":
        return http_api.ask(account, action, params, wait)
    station = hub.find(account.name)
    if station is None or not station.usable:
        raise lumia.errors.UnreachableError(f"onebot account {account.name} is not connected to this gateway")
    if station.why_offline and action.startswith("send_"):
        raise lumia.errors.UnreachableError(f"onebot account {account.name} is offline: {station.why_offline}")
    if station.is_outdated(_read(intake.newest, account.name)):
        raise lumia.errors.UnreachableError(f"onebot account {account.name} is connected at another gateway now")
    calling = asyncio.run_coroutine_threadsafe(station.link.call(action, params, wait=wait), station.link.loop)
    try:
        return calling.result(wait + _SPARE)
    except (TimeoutError, concurrent.futures.CancelledError):
        calling.cancel()
        raise UnknownOutcomeError(f"no answer to {action}: the gateway was stopped or is stuck") from None


def _read(look: Callable[..., str], *args: str) -> str:
    """Look into the store before anything goes out: where that fails, surely nothing was done."""
    try:
        return look(*args)
    except lumia.errors.BackendUnavailableError as error:
        raise lumia.errors.UnreachableError(f"nothing was asked for, since the store is away: {error}") from error


def send(account: Account, kind: str, chat: str, message: list[dict[str, Any]]) -> dict[str, str]:
    """Send one message and return its id; what nobody knows is looked up in the chat's history first."""
    pace.take(account, f"{kind}-{chat}")
    group = _read(intake.group_of, account.name, chat) if kind == "private" else ""
    filled = outgoing.filled(message, lumia.media.read)
    begun = lumia.system.now()
    try:
        return outgoing.message_id(ask(account, *outgoing.request(kind, chat, filled, group), SEND_TIME))
    except UnknownOutcomeError:
        found = _sent_after_all(account, kind, chat, message, begun) if account.verify_unknown else ""
        if not found:
            raise
        _log.info("onebot account %s: a message without an answer was found in the history", account.name)
        return {"message_id": found}


def delete(account: Account, message: str) -> dict[str, str]:
    """Take a message back."""
    number = whole(message)
    if number is None:
        raise lumia.errors.RejectedError(f"{message[:40]!r} is no OneBot message id")
    outgoing.judged(ask(account, "delete_msg", {"message_id": number}))
    return {}


def _sent_after_all(account: Account, kind: str, chat: str, message: list[dict[str, Any]], since: float) -> str:
    """Return the id under which the history of a chat holds a message of ours that has no receipt yet, else ""."""
    station = hub.find(account.name)
    if account.mode != "http" and (station is None or not _back(station)):
        return ""
    action, target = backfill.ACTIONS[kind]
    try:
        answer = ask(account, action, {target: outgoing.number(chat), "count": backfill.PAGE})
    except (UnknownOutcomeError, lumia.errors.NotDoneError):
        return ""
    wanted, place = outgoing.signature(message), {"kind": kind, "id": chat}
    for event in reversed(backfill.listed(answer, kind, chat)):
        same = outgoing.signature(event.get("message")) == wanted and time_of(event) >= since - _SKEW
        found = message_id(event)
        known = lumia.adapters.receipts.sent(PLATFORM, account.name, place, found)
        if same and known is None and _mine(event, account, station):
            return found
    return ""


def _back(station: Station) -> bool:
    waiting = asyncio.run_coroutine_threadsafe(station.until_ready(_COME_BACK), station.link.loop)
    try:
        return waiting.result(_COME_BACK + _SPARE)
    except (TimeoutError, concurrent.futures.CancelledError):
        return False


def _mine(event: Mapping[str, Any], account: Account, station: Station | None) -> bool:
    me = station.link.self_id if station is not None else account.self_id
    return backfill.of_bot(event, me or identifier(event.get("self_id")))


class Pace:
    """Keeps the messages to one chat apart: one that comes too soon is tried again at its time, nobody sleeps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[tuple[str, str], float] = {}

    def take(self, account: Account, chat: str) -> None:
        """Note that a message goes out now; raises `lumia.errors.RetryAfterError` when it may not yet."""
        now, key = lumia.system.monotonic(), (account.name, chat)
        with self._lock:
            wait = self._next.get(key, 0.0) - now
            if wait <= 0:
                self._next = self._next if len(self._next) < 5000 else _later(self._next, now)
                self._next[key] = now + account.interval
        if wait > 0:
            raise lumia.errors.RetryAfterError(f"{account.interval:g} s lie between two messages to {chat}", wait)


def _later(times: dict[tuple[str, str], float], now: float) -> dict[tuple[str, str], float]:
    return {key: time for key, time in times.items() if time > now}


pace = Pace()
