"""Accepting an update: when `take` returned, Telegram may forget it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import lumia
from lumia import gateway

from . import api, incoming, outgoing
from .accounts import NAME, Account
from .incoming import Happening, Talk
from .segments import Me

_log = logging.getLogger("lumia.telegram")
_typing: set[asyncio.Task[None]] = set()
_MOST_TYPING = 32
"""Calls under way that show "typing …"; with more, it is not shown."""


async def take(account: Account, me: Me, update: Any) -> None:
    """Accept an update; the same one again changes nothing.

    One that can't be accepted as it is becomes event `telegram.unreadable`, so that it holds up nothing and is not lost
    without a trace. Raises `BackendUnavailableError` and `BusyLaneError` where it has to come again.
    """
    try:
        found = incoming.read(update, account.name, me)
    except Exception as error:  # whatever it is, reading the same again gives no other
        await _refuse(account.name, update, error)
        return
    try:
        if isinstance(found, Talk):
            await lumia.adapters.submit(NAME, found.msg, update)
            _show_typing(account, found.msg)
        elif found is not None:
            await _start(account.name, found)
    except (lumia.errors.PayloadError, lumia.errors.BoxError) as error:
        await _refuse(account.name, update, error)


async def _start(account: str, found: Happening) -> None:
    """Start the event, if somebody consumes it."""
    bot = lumia.runtime.current()
    if bot.planned is None:
        await gateway.call(bot.refresh_routes)
    if bot.routes.plan("event", found.id).steps:
        meta = {"account": account, **({"chat": found.content["chat"]} if "chat" in found.content else {})}
        content = lumia.Box.any(found.content, meta=meta)
        await gateway.start(found.id, content, flow="event", key=found.lane, dedup=found.dedup)
    lumia.adapters.account(NAME, account).event()


async def _refuse(account: str, update: Any, error: Exception) -> None:
    known = isinstance(error, (lumia.errors.PayloadError, lumia.errors.BoxError))
    update_id = update.get("update_id") if isinstance(update, Mapping) else None
    _log.error("account %s: update %s is not understood and not answered: %s", account, update_id, error,
               exc_info=None if known else error)  # fmt: skip
    await gateway.call(
        _refused, account, update, update_id, str(error) if known else f"{type(error).__name__}: {error}"
    )
    lumia.adapters.account(NAME, account).leaves_out(f"update {update_id}", error)


def _refused(account: str, update: Any, update_id: Any, why: str) -> None:
    value = {"account": account, "update_id": update_id, "why": why}
    named = f"{NAME}:{account}:update:{update_id}" if type(update_id) is int else None
    for more in ({"update": update}, {}):
        try:
            lumia.event.start(f"{NAME}.unreadable", lumia.Box.any({**value, **more}), dedup=named)
            return
        except (lumia.errors.PayloadError, lumia.errors.BoxError):
            continue


def _show_typing(account: Account, msg: Mapping[str, Any]) -> None:
    if not account.typing or not msg["mentions_bot"] or len(_typing) >= _MOST_TYPING:
        return
    thread = str(msg.get("thread") or "")
    if thread.startswith(outgoing.DIRECT):
        return  # sendChatAction knows no such topics
    params: dict[str, Any] = {**outgoing.place(msg["chat"]["id"], thread), "action": "typing"}
    task = asyncio.create_task(_called(account, params))
    _typing.add(task)
    task.add_done_callback(_typing.discard)


async def _called(account: Account, params: dict[str, Any]) -> None:
    try:
        await asyncio.to_thread(api.call, account, "sendChatAction", params)
    except lumia.errors.LumiaError as error:
        _log.debug("account %s: typing is not shown: %s", account.name, error)
