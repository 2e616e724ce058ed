"""Groups that became supergroups: their id changes, and who sends to the old one is sent on to the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia

from .accounts import NAME

_KEY = "moved"
_MOST_HOPS = 3


def current(account: str, chat_id: int | str) -> int | str:
    """Return the id under which a chat is known today."""
    moved = lumia.store.of(NAME).fields(_KEY, scope=account)
    found = str(chat_id)
    for _ in range(_MOST_HOPS):
        found = str(moved[found]["to"]) if found in moved else found
    return chat_id if found == str(chat_id) else int(found)


def since(account: str, chat_id: str) -> float | None:
    """Return when a chat's move became known, in seconds since 1970; None for one that didn't move."""
    found = lumia.store.of(NAME).fields(_KEY, scope=account).get(chat_id)
    return None if found is None else float(found["at"])


def note(account: str, old: str, new: str) -> None:
    """Keep that group `old` is supergroup `new`."""
    store = lumia.store.of(NAME)
    if store.fields(_KEY, scope=account).get(old, {}).get("to") != new:
        store.put(_KEY, old, {"to": new, "at": round(lumia.system.now(), 3)}, scope=account)


def told(account: str, message: Mapping[str, Any]) -> None:
    """Keep what a service message tells of a migration; both chats get one."""
    chat = message.get("chat")
    here = chat.get("id") if isinstance(chat, Mapping) else None
    to, since = message.get("migrate_to_chat_id"), message.get("migrate_from_chat_id")
    if type(here) is int and type(to) is int:
        note(account, str(here), str(to))
    elif type(here) is int and type(since) is int:
        note(account, str(since), str(here))
