"""The accounts that this process has to do with, per bot."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import lumia

from .accounts import Account
from .station import Station

# By transport: every bot has one of its own, and it can be referred to weakly.
_stations: WeakKeyDictionary[object, dict[str, Station]] = WeakKeyDictionary()


def stations() -> dict[str, Station]:
    """Return the stations of the active bot in this process, by account."""
    return _stations.setdefault(lumia.runtime.current().transport, {})


def find(account: str) -> Station | None:
    """Return an account's station, None where this process has nothing to do with it. Any thread."""
    return stations().get(account)


def station(account: Account, self_id: str = "") -> Station:
    """Return an account's station on the running loop, made when there is none; its settings are those of now."""
    known = stations()
    found = known.get(account.name)
    if found is None or not found.usable:
        found = known[account.name] = Station(account, self_id)
    found.account = account
    if not found.link.open and self_id:
        found.link.self_id = self_id
    return found
