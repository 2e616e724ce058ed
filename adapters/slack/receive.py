"""From one payload of Slack, posted or through a socket, to a stored message or event: the way both share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

import lumia
from lumia import gateway
from lumia.errors import PayloadError

from . import incoming, interactive
from .accounts import NAME, Account
from .arrivals import Context, Talk, Told
from .people import people
from .sending import ANSWERS_KEPT, answer_key

_GONE = {"app_uninstalled": "the app was uninstalled", "tokens_revoked": "the app's tokens were revoked"}
_taking: set[asyncio.Task[None]] = set()
_log = logging.getLogger("lumia.slack")


async def event(account: Account, envelope: Mapping[str, Any]) -> None:
    """Take what the Events API tells; returns once it is stored.

    Raises what `lumia.adapters.submit` raises. What is no message and nobody listens to is dropped.
    """
    if envelope.get("type") == "app_rate_limited":
        _limited(account)
        return
    if envelope.get("type") != "event_callback":
        return
    inner = envelope.get("event")
    gone = _GONE.get(str(inner.get("type"))) if isinstance(inner, Mapping) else None
    if gone:
        lumia.adapters.account(NAME, account.name).refused(gone)
        return
    await _take(account, incoming.event, envelope)
    people.meet(account, incoming.people(envelope))


async def command(account: Account, form: Mapping[str, str]) -> None:
    """Take a slash command."""
    await _take(account, interactive.command, form)


async def interaction(account: Account, payload: Mapping[str, Any]) -> None:
    """Take a click, a submitted view or a shortcut."""
    await _take(account, interactive.interaction, payload)


async def _take(account: Account, read: Any, payload: Mapping[str, Any]) -> None:
    try:
        found: Talk | Told | None = read(payload, _context(account))
    except PayloadError as error:
        _log.warning("account %s: Slack sent something that is no message and was dropped: %s", account.name, error)
        return
    if isinstance(found, Talk):
        await _keep_answer(account, found.msg["message_id"], found.response_url)
        await lumia.adapters.submit(NAME, found.msg, found.raw)
    elif found is not None:
        await _tell(account, found)


async def _tell(account: Account, told: Told) -> None:
    lumia.adapters.account(NAME, account.name).event()
    bot = lumia.runtime.current()
    if bot.planned is None:
        await gateway.call(bot.refresh_routes)  # which waits for the broker
    if not bot.routes.plan("event", told.id).steps:
        return
    await _keep_answer(account, told.answer_id, told.response_url)
    meta = {"account": account.name, "chat": told.content["chat"]}
    if "thread" in told.content:
        meta["thread"] = told.content["thread"]
    content = lumia.Box.any(lumia.media.unsigned_links(told.content), meta=meta)
    await gateway.call(lumia.event.start, told.id, content, key=told.key, dedup=told.dedup)


async def _keep_answer(account: Account, message_id: str, response_url: str) -> None:
    """Keep where a command may be answered, before its run can ask for it; the address is a secret."""
    if message_id and response_url.startswith(("https://", "http://")):
        keep = lumia.store.of(NAME).set
        await gateway.call(keep, answer_key(message_id), response_url, scope=account.name, ttl=ANSWERS_KEPT)


def _context(account: Account) -> Context:
    name = partial(people.name, account)
    return Context(account.name, people.bots.get(account, ""), name, lumia.system.now())


def _limited(account: Account) -> None:
    why = "Slack holds events back: the workspace sent more than 30,000 in an hour"
    _log.warning("account %s: %s", account.name, why)
    state = lumia.adapters.account(NAME, account.name)
    (state.connected if account.socket else state.listening)(why)


async def within(seconds: float, account: Account, taking: Coroutine[Any, Any, None]) -> None:
    """Await `taking`; raises `lumia.errors.BackendUnavailableError` when it takes longer than Slack waits.

    What is late goes on all the same: Slack sends it again, and then it is the same message.
    """
    task = asyncio.create_task(taking)
    _taking.add(task)
    task.add_done_callback(_taking.discard)
    done, _ = await asyncio.wait((task,), timeout=seconds)
    if not done:
        task.add_done_callback(partial(_late, account.name))
        why = f"account {account.name}: storing took longer than the {seconds:g} s that Slack waits"
        raise lumia.errors.BackendUnavailableError(why)
    task.result()


def _late(account: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("account %s: what took too long was not stored: %s", account, error)
