"""What runs in every gateway: each bot's poller or webhook, begun and ended as config/telegram.toml says."""

from __future__ import annotations

import asyncio
import logging

import lumia

from . import accounts, api
from .accounts import NAME, POLLING, Account
from .polling import Poller

LOOK = 2.0
"""Seconds between two looks at the settings."""
_SLOWEST = 300.0
_log = logging.getLogger("lumia.telegram")


@lumia.web.resident
async def receive() -> None:
    """Keep one task per bot."""
    tasks: dict[Account, asyncio.Task[None]] = {}
    begun: set[Account] = set()
    try:
        while True:
            _settle(tasks, begun)
            await asyncio.sleep(LOOK)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _settle(tasks: dict[Account, asyncio.Task[None]], begun: set[Account]) -> None:
    """Begin and end tasks. begun: accounts that have received already, so that nothing is dropped once more."""
    wanted = {account for account in accounts.every() if _is_served(account)}
    gone = tasks.keys() - wanted
    for account, task in list(tasks.items()):
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None:
            trace = None if isinstance(error, lumia.errors.LumiaError) else error
            _log.error("account %s: receiving begins anew: %s", account.name, error, exc_info=trace)
        if account not in wanted or error is not None or task.cancelled():
            tasks.pop(account).cancel()
    for account in wanted - tasks.keys():
        tasks[account] = asyncio.create_task(_served(account, begun), name=f"telegram {account.name}")
    begun &= wanted
    for name in {account.name for account in gone} - {account.name for account in accounts.every()}:
        lumia.adapters.account(NAME, name).disconnected("taken out of config/telegram.toml")


def _is_served(account: Account) -> bool:
    try:
        state = lumia.adapters.account(NAME, account.name)
    except lumia.errors.PayloadError:
        return False  # an empty or unprintable name; the log and `lumia doctor` tell of it
    if not account.enabled:
        state.disabled()
        return False
    for why, _ in accounts.faults(account):
        state.refused(why)
        return False
    return True


async def _served(account: Account, begun: set[Account]) -> None:
    if account.mode != POLLING:
        await _hooked(account)
        return
    async with lumia.adapters.owning(f"{NAME}/{account.name}"), api.aclient(account) as client:
        poller = Poller(account, client, drop=account.drop_pending and account not in begun)
        begun.add(account)
        await poller.run()


async def _hooked(account: Account) -> None:
    """Tell that the webhook waits; with a public_url one gateway sets it, again whenever the settings change."""
    state = lumia.adapters.account(NAME, account.name)
    state.listening(f"/telegram/{account.name}")
    if not account.webhook_url:
        return
    async with lumia.adapters.owning(f"{NAME}/{account.name}"), api.aclient(account) as client:
        delay = 1.0
        while True:
            try:
                await api.acall(client, account, "setWebhook", webhook(account))
                state.listening(account.webhook_url)
                _log.info("account %s: Telegram posts to %s", account.name, account.webhook_url)
                return
            except lumia.errors.LumiaError as error:
                why = f"the webhook can't be set: {error}"
                refused = isinstance(error, api.ApiError) and error.code in (401, 404)
                (state.refused if refused else state.disconnected)(why)
                _log.error("account %s: %s", account.name, why)
            await asyncio.sleep(delay)
            delay = min(_SLOWEST, delay * 2)


def webhook(account: Account) -> dict[str, object]:
    """Return the parameters of setWebhook."""
    return {
        "url": account.webhook_url,
        "secret_token": account.webhook_secret(),
        "allowed_updates": list(account.allowed_updates),
        "drop_pending_updates": account.drop_pending,
    }
