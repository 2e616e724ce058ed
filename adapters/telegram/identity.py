"""Who the bot is at Telegram: its username decides which mentions are for it (Bot API: getMe)."""

from __future__ import annotations

import threading
from typing import Any

import lumia
from lumia import gateway

from . import api
from .accounts import NAME, Account
from .segments import Me

REFRESH = 3600.0
"""Seconds after which getMe is asked again."""
_KEY = "me"
_lock = threading.Lock()
_known: dict[tuple[str, str], tuple[Me, float]] = {}


def of_user(user: Any) -> Me:
    """Return who getMe's answer says the bot is."""
    privacy = not user.get("can_read_all_group_messages", False)
    return Me(str(user["id"]), str(user.get("username", "")), str(user.get("first_name", "")), privacy)


async def known(account: Account) -> Me:
    """Return who the bot is, asked of Telegram at the first time and then every hour.

    While Telegram doesn't answer, what was known before holds. Raises `api.ApiError` and the like if nothing ever was.
    """
    found = _known.get(_key(account))
    if found is not None and lumia.system.monotonic() - found[1] < REFRESH:
        return found[0]
    return await gateway.call(_asked, account)


def _asked(account: Account) -> Me:
    try:
        return remember(account, api.call(account, "getMe"))
    except lumia.errors.LumiaError:
        found = _known.get(_key(account))
        me = found[0] if found is not None else _stored(account)
        if me is None:
            raise
        with _lock:
            _known[_key(account)] = (me, lumia.system.monotonic())
        return me


def remember(account: Account, user: Any) -> Me:
    """Keep getMe's answer, also for a later process that can't reach Telegram."""
    me = of_user(user)
    with _lock:
        before = _known.get(_key(account))
        _known[_key(account)] = (me, lumia.system.monotonic())
    if before is None or before[0] != me:
        value = {"id": me.id, "username": me.username, "name": me.name, "privacy": me.privacy}
        lumia.store.of(NAME).set(_KEY, value, scope=account.name)
    return me


def _stored(account: Account) -> Me | None:
    found = lumia.store.of(NAME).get(_KEY, scope=account.name)
    return Me(**found) if isinstance(found, dict) and found.get("id") == account.bot_id else None


def _key(account: Account) -> tuple[str, str]:
    return account.api_url, account.token
