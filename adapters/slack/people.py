"""Who is who: names of users and the bots' own ids, asked for beside the messages' way and kept for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import lumia
from lumia.errors import LumiaError, RetryAfterError

from . import api
from .accounts import NAME, Account

KEPT = 24 * 3600.0
"""Seconds for which a name is kept in the store."""
FRESH = 600.0
"""Seconds after which a process looks into the store again."""
PAUSE = 60.0
"""Seconds without questions after Slack refused one."""
_MOST = 5000
_WAITING = 200


class People:
    """The names that one process knows; `name` never waits."""

    def __init__(self) -> None:
        self.bots: dict[Account, str] = {}
        self._names: dict[tuple[Account, str], tuple[str, float]] = {}
        self._wanted: dict[Account, set[str]] = {}
        self._asking: dict[Account, asyncio.Task[None]] = {}
        self._silent: dict[Account, float] = {}

    def name(self, account: Account, id: str) -> str:
        """Return the name of a user, "" as long as nobody knows it."""
        return self._names.get((account, id), ("", 0.0))[0]

    def meet(self, account: Account, ids: Iterable[str]) -> None:
        """See that these users' names will be known; called on an event loop."""
        now = lumia.system.monotonic()
        unknown = {id for id in ids if self._names.get((account, id), ("", float("-inf")))[1] <= now}
        if not unknown or self._silent.get(account, 0.0) > now:
            return
        wanted = self._wanted.setdefault(account, set())
        wanted.update(list(unknown)[: max(0, _WAITING - len(wanted))])
        asking = self._asking.get(account)
        if asking is None or asking.done():
            self._asking[account] = asyncio.get_running_loop().create_task(self._ask(account))

    async def _ask(self, account: Account) -> None:
        wanted = self._wanted[account]
        while wanted:
            id = wanted.pop()
            try:
                name = await asyncio.to_thread(look_up, account, id)
            except RetryAfterError as error:
                self._silent[account] = lumia.system.monotonic() + error.wait
                wanted.clear()
            except LumiaError:
                self._silent[account] = lumia.system.monotonic() + PAUSE
                wanted.clear()
            else:
                self._keep(account, id, name)

    def _keep(self, account: Account, id: str, name: str) -> None:
        now = lumia.system.monotonic()
        if len(self._names) >= _MOST:
            self._names = {key: kept for key, kept in self._names.items() if kept[1] > now}
        if len(self._names) < _MOST:
            self._names[account, id] = (name, now + FRESH)


def look_up(account: Account, id: str) -> str:
    """Return a user's name from the store, else from Slack (`users.info`, scope users:read); "" for nobody."""
    store = lumia.store.of(NAME)
    known = store.get(f"name:{id}", scope=account.name)
    if known is not None:
        return str(known)
    try:
        user = api.form(account, "users.info", {"user": id}).get("user")
    except api.SlackError as error:
        if error.code not in ("user_not_found", "user_not_visible"):
            raise
        user = None
    name = _name_of(user)
    store.set(f"name:{id}", name, scope=account.name, ttl=KEPT)
    return name


def _name_of(user: object) -> str:
    if not isinstance(user, dict):
        return ""
    profile = user.get("profile")
    profile = profile if isinstance(profile, dict) else {}
    listed = (profile.get("display_name"), user.get("real_name"), profile.get("real_name"), user.get("name"))
    return lumia.payloads.clean_text(next((name for name in listed if isinstance(name, str) and name), ""))


people = People()
