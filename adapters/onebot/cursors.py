"""When each chat of an account was last heard, kept so that an outage can be made up for."""

from __future__ import annotations

from typing import Any

import lumia

from .incoming import NAME

CHATS = 500
"""Chats remembered per account, the newest."""
FORGOTTEN = 7 * 86400.0
"""Seconds after which a silent chat is no longer looked into."""
_KEY = "seen"


class Cursors:
    """The newest accepted message of each chat: `group-12` → its time, in seconds since 1970."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._times: dict[str, float] = {}
        self._held: dict[str, float] = {}
        self._dirty = False

    def seen(self, chat: str, time: float) -> bool:
        """Note that a message was accepted; nothing is written yet. Tell whether nothing was known of the chat."""
        if chat in self._held:
            self._held[chat] = max(self._held[chat], time)
            return False
        known = self._times.get(chat)
        if known is None or time > known:
            self._times[chat] = time
            self._dirty = True
            if len(self._times) > 2 * CHATS:
                self._times = _newest(self._times)
        return known is None

    def hold(self, chat: str) -> None:
        """Leave a chat's time as it is, whatever is heard, until `release`: what was said since it is still missing."""
        self._held.setdefault(chat, 0.0)

    def release(self, chat: str) -> None:
        """Go on with a chat, from the newest message heard meanwhile."""
        newest = self._held.pop(chat, 0.0)
        if newest:
            self.seen(chat, newest)

    @property
    def times(self) -> dict[str, float]:
        """Return what is known."""
        return dict(self._times)

    @property
    def dirty(self) -> bool:
        """Tell whether there is something to write."""
        return self._dirty

    def load(self) -> dict[str, float]:
        """Return what is stored and known, of chats that were not silent for too long. Synchronous."""
        since = lumia.system.now() - FORGOTTEN
        self._times = known = _merged(_stored(self._account), self._times)
        return {chat: time for chat, time in known.items() if time >= since}

    def save(self) -> None:
        """Write what is new, without taking back what another process wrote. Synchronous."""
        if self._dirty:
            self._dirty = False
            try:
                _write(self._account, _merged(_stored(self._account), self._times))
            except lumia.errors.LumiaError:
                self._dirty = True
                raise


def _merged(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return _newest({chat: max(one.get(chat, 0.0), other.get(chat, 0.0)) for chat in {**one, **other}})


def _newest(times: dict[str, float]) -> dict[str, float]:
    return dict(sorted(times.items(), key=lambda item: item[1], reverse=True)[:CHATS])


def _stored(account: str) -> dict[str, float]:
    found: Any = lumia.store.of(NAME).get(_KEY, {}, scope=account)
    return {str(chat): float(time) for chat, time in found.items()} if isinstance(found, dict) else {}


def _write(account: str, times: dict[str, float]) -> None:
    lumia.store.of(NAME).set(_KEY, times, scope=account, ttl=FORGOTTEN)
