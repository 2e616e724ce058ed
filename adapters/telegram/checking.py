"""What is wrong with the bots: in the log, in `lumia doctor`, and as Telegram sees it in `lumia adapters test`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import lumia

from . import accounts, api, identity
from .accounts import POLLING, WEBHOOK, Account

_log = logging.getLogger("lumia.telegram")
_PRIVACY = (
    "privacy mode is on: in groups it gets commands, replies to it and mentions only; to hear everything send "
    "/setprivacy to @BotFather, choose Disable, then remove the bot from the group and add it again"
)


def tell() -> None:
    """Log what is wrong with the configured bots."""
    for account in accounts.every():
        if account.enabled:
            for why, fix in accounts.faults(account):
                _log.error("%s; %s", why, fix)
            for why, fix in accounts.remarks(account):
                _log.warning("%s; %s", why, fix)


@lumia.checks.check("telegram")
def settings() -> Iterator[lumia.checks.Finding]:
    """Tell `lumia doctor` of the settings; asks nobody."""
    enabled = [account for account in accounts.every() if account.enabled]
    for account in enabled:
        found = [lumia.checks.fail(why, fix) for why, fix in accounts.faults(account)]
        found += [lumia.checks.risk(why, fix) for why, fix in accounts.remarks(account)]
        yield from found or [lumia.checks.ok(f"account {account.name}: {account.mode}")]
    tokens = [account.token for account in enabled if account.token]
    if len(tokens) != len(set(tokens)):
        yield lumia.checks.fail(
            "config/telegram.toml: two accounts have the same token, so they take each other's messages",
            "remove one of them",
        )


@lumia.adapters.check
def check(account: str) -> lumia.adapters.Checked:
    """Ask Telegram who the bot is, and how its messages come."""
    found = accounts.find(account)
    if found is None:
        return lumia.adapters.Checked(False, "", f"add [accounts.{account}] with a token to config/telegram.toml")
    for why, fix in accounts.faults(found):
        return lumia.adapters.Checked(False, "", f"{why}; {fix}")
    try:
        me = identity.of_user(api.call(found, "getMe"))
        hook = api.call(found, "getWebhookInfo")
    except api.ApiError as error:
        unknown = error.code in (401, 404)
        return lumia.adapters.Checked(False, "", "Telegram doesn't know this token" if unknown else str(error))
    except lumia.errors.LumiaError as error:
        return lumia.adapters.Checked(False, "", f"Telegram can't be reached: {error}")
    notes = [*_hook(found, hook), *([_PRIVACY] if me.privacy else [])]
    return lumia.adapters.Checked(_is_heard(found, hook), f"@{me.username} ({me.id})", "; ".join(notes))


def _is_heard(account: Account, hook: dict[str, Any]) -> bool:
    return account.mode == POLLING or bool(hook.get("url"))


def _hook(account: Account, hook: dict[str, Any]) -> Iterator[str]:
    url, waiting = str(hook.get("url") or ""), hook.get("pending_update_count") or 0
    if account.mode == WEBHOOK and not url:
        yield "no webhook is set at Telegram: start the gateway with public_url set, or set it yourself"
    if account.mode == WEBHOOK and url and account.webhook_url and url != account.webhook_url:
        yield f"Telegram posts to {url}, not to {account.webhook_url}"
    if account.mode == POLLING and url:
        yield f"a webhook is set ({url}); it is removed when polling begins"
    if waiting:
        yield f"{waiting} updates wait at Telegram"
    if hook.get("last_error_message"):
        yield f"the last post failed: {hook['last_error_message']}"
