"""What the account's station asks of the core, in one place. Synchronous unless it says otherwise."""

from __future__ import annotations

import logging
from typing import Any

import lumia

from . import incoming
from .incoming import NAME, PLATFORM, Chat

_TEMPORARY = 7 * 86400.0
_log = logging.getLogger("lumia.onebot")


def note(account: str, event: dict[str, Any], chat: Chat | None) -> str:
    """Start the event of a notice or request where somebody listens; returns the run id, "" for none."""
    id = incoming.event_id(event)
    if not lumia.runtime.current().routes.plan("event", id).steps:
        return ""
    where = chat or Chat("private", "0")
    key = lumia.payloads.lane(PLATFORM, account, where.kind, where.id)
    told = {"chat": {"kind": chat.kind, "id": chat.id}} if chat is not None else {}
    box = lumia.Box.any(lumia.media.unsigned_links(event), meta={"account": account, **told})
    return lumia.event.start(id, box, key=key, dedup=f"{key}:{incoming.fingerprint(event)}")


def remember_group(account: str, chat: Chat) -> None:
    """Note from which group a temporary private chat came: an answer has to name it."""
    lumia.store.of(NAME).set(f"temporary:{chat.id}", chat.group, scope=account, ttl=_TEMPORARY)


def group_of(account: str, user: str) -> str:
    """Return the group a temporary private chat came from, "" when it is none."""
    return str(lumia.store.of(NAME).get(f"temporary:{user}", "", scope=account))


def is_ours(account: str, chat: Chat, message_id: str) -> bool:
    """Tell whether a message that somebody answers is one of the bot's; the event names only its id."""
    return lumia.adapters.receipts.sent(PLATFORM, account, {"kind": chat.kind, "id": chat.id}, message_id) is not None


def announce(account: str, generation: str) -> None:
    """Say that this is the account's newest connection: whoever says so last is right, whatever their clocks show."""
    lumia.store.of(NAME).set("newest", generation, scope=account)


def newest(account: str) -> str:
    """Return which connection of the account is the newest, in whichever gateway; "" when none has said so."""
    return str(lumia.store.of(NAME).get("newest", "", scope=account))
