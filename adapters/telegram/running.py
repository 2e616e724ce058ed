"""What runs in every gateway: each bot's poller or webhook, begun and ended as config/telegram.toml says."""

from __future__ import annotations

import asyncio
import logging

import lumia

from . import accounts, api
from .accounts import NAME, POLLING, Account
from .polling import Poller

_SLOWEST = 300.0
_log = logging.getLogger("lumia.telegram")


@lumia.web.resident
async def receive() -> None:
    """Keep one task per bot. begun: those that have received already, so that nothing is dropped once more."""
    begun: set[Account] = set()

    def wanted() -> set[Account]:
        found = {account for account in accounts.every() if _is_served(account)}
        begun.intersection_update(found)
        return found

    await lumia.adapters.following(
        NAME, wanted, lambda account: _served(account, begun), names=lambda: {one.name for one in accounts.every()}
    )


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
        await asyncio.get_running_loop().create_future()  # there is nothing more to do until its settings change

    async def polled(owned: lumia.adapters.Owned) -> None:
        async with api.aclient(account) as client:
            poller = Poller(account, client, drop=account.drop_pending and account not in begun)
            begun.add(account)
            await poller.run()

    await lumia.adapters.keeping_up(lumia.adapters.account(NAME, account.name), polled)


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
        "max_connections": account.max_connections,
    }
