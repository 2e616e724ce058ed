"""Groups that became supergroups: their id changes, and who sends to the old one is sent on to the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia

from .accounts import NAME, Account

_KEY = "moved"
_MOST_HOPS = 3


def current(account: Account, chat_id: int | str) -> int | str:
    """Return the id under which a chat is known today."""
    moved = lumia.store.of(NAME).fields(_KEY, scope=account.name)
    found = str(chat_id)
    for _ in range(_MOST_HOPS):
        found = str(moved.get(found, found))
    return chat_id if found == str(chat_id) else int(found)


def note(account: str, old: str, new: str) -> None:
    """Keep that group `old` is supergroup `new`."""
    lumia.store.of(NAME).put(_KEY, old, new, scope=account)


def told(account: str, message: Mapping[str, Any]) -> None:
    """Keep what a service message tells of a migration; both chats get one."""
    chat = message.get("chat")
    here = chat.get("id") if isinstance(chat, Mapping) else None
    to, since = message.get("migrate_to_chat_id"), message.get("migrate_from_chat_id")
    if type(here) is int and type(to) is int:
        note(account, str(here), str(to))
    elif type(here) is int and type(since) is int:
        note(account, str(since), str(here))
