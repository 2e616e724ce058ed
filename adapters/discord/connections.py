"""The bots of this gateway: which are connected, following the settings as they change."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import lumia
from lumia import gateway
from lumia.errors import LumiaError, PayloadError

from . import accounts, rest
from .accounts import NAME, Account
from .identify import Starts
from .shard import Shard

_COMMANDS_EVERY = 5.0
_log = logging.getLogger("lumia.discord")


async def serve() -> None:
    """Keep every configured bot connected, until cancelled."""
    await lumia.adapters.following(NAME, _wanted, _forever, names=accounts.names)


def _wanted() -> set[Account]:
    for account in accounts.every():
        if not account.enabled:
            lumia.adapters.account(NAME, account.name).disabled()
        elif not account.connects:
            lumia.adapters.account(NAME, account.name).listening(f"POST /discord/{account.name}/interactions")
    for problem in accounts.problems():
        with suppress(PayloadError):  # a name that is empty or unprintable; the log and `lumia doctor` tell of it
            lumia.adapters.account(NAME, problem.account).refused(f"{problem.message}: {problem.fix}")
    return {account for account in accounts.every() if account.connects}


async def _forever(account: Account) -> None:
    state = lumia.adapters.account(NAME, account.name)
    await lumia.adapters.keeping_up(state, partial(_serve, account, state))


async def _serve(account: Account, state: lumia.adapters.AccountState, owned: lumia.adapters.Owned) -> None:
    state.connecting()
    starts = Starts(account)
    told = _teller(account, state)
    async with asyncio.TaskGroup() as group:
        group.create_task(_register(account))
        for index in range(account.shards):
            group.create_task(Shard(account, index, starts, told, owned.lost).run())


def _teller(account: Account, state: lumia.adapters.AccountState) -> Callable[[int, bool, str], None]:
    up: set[int] = set()

    def told(shard: int, connected: bool, detail: str) -> None:
        (up.add if connected else up.discard)(shard)
        which = f"shard {shard}: " if account.shards > 1 else ""
        if connected and len(up) == account.shards:
            state.connected(detail if account.shards == 1 else f"{account.shards} shards")
        elif connected:
            state.connecting(f"{len(up)} of {account.shards} shards")
        else:
            state.disconnected(which + detail)
            _log.warning("account %s: %s%s", account.name, which, detail)

    return told


async def _register(account: Account) -> None:
    """Make the settings' slash commands those of the bot's application, at the start and whenever they change."""
    while True:
        wanted = accounts.commands()
        try:
            if wanted:
                await gateway.call(_registered, account, wanted)
        except (LumiaError, gateway.BusyError) as error:
            _log.warning("account %s: its slash commands can't be registered: %s", account.name, error)
            await asyncio.sleep(60.0)
        await asyncio.sleep(_COMMANDS_EVERY)


def _registered(account: Account, wanted: list[dict[str, object]]) -> None:
    text = json.dumps([account.application_id, wanted], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    store = lumia.store.of(NAME)
    if store.get("commands", scope=account.name) == digest:
        return
    application = account.application_id or str(rest.application(account)["id"])
    rest.put_commands(account, application, wanted)
    store.set("commands", digest, scope=account.name)
