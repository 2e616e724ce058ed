"""The accounts of config/slack.toml, and what is wrong with them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import lumia
from lumia.adapters import Fault

NAME = "slack"
PID = 6
FILE = "config/slack.toml"
API_URL = "https://slack.com/api/"
EVENTS, SOCKET = "events", "socket"
AUTO, ALWAYS, NEVER = "auto", "always", "never"
_NAMED = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOKENS = {"bot_token": "xoxb-", "app_token": "xapp-"}


@dataclass(frozen=True)
class Account:
    """One Slack app in one workspace. Secrets are "" when there is none, and never shown."""

    name: str
    bot_token: str = field(default="", repr=False)
    signing_secret: str = field(default="", repr=False)
    app_token: str = field(default="", repr=False)
    mode: str = EVENTS
    api_url: str = API_URL
    reply_in_thread: str = AUTO
    markdown: bool = True
    owner: str = ""
    on_unknown: str = "hold"
    enabled: bool = True

    @property
    def socket(self) -> bool:
        """Tell whether the bot connects to Slack (Socket Mode) instead of being posted to."""
        return self.mode == SOCKET


def find(name: str) -> Account | None:
    """Return a configured account that is enabled, or None."""
    entry = _tables().get(name)
    account = _account(name, entry) if entry is not None and _NAMED.fullmatch(name) else None
    return account if account is not None and account.enabled else None


def required(name: str) -> Account:
    """Return a configured account; raises `lumia.errors.PayloadError` naming the file when there is none."""
    account = find(name)
    if account is None:
        raise lumia.errors.PayloadError(how_to_add(name))
    return account


def all_accounts() -> list[Account]:
    """Return the accounts that can be served, by name."""
    return [_account(name, entry) for name, entry in sorted(_tables().items()) if _NAMED.fullmatch(name)]


def how_to_add(name: str) -> str:
    """Say that there is no such account, and how to make one."""
    shown = name if _NAMED.fullmatch(name) else "main"
    return f"no Slack account has this name; add [accounts.{shown}] to {FILE}, see docs/slack.md"


def faults() -> Iterator[Fault]:
    """Yield what is wrong with the configured accounts; the others are served all the same."""
    for name in sorted(_tables()):
        if not _NAMED.fullmatch(name):
            yield Fault(name, "", f"account {name!r} is not served", "a name is 1 to 64 of A-Z a-z 0-9 _ . -")
    for account in all_accounts():
        if account.enabled:
            yield from _wrong(account)


@lumia.adapters.settings
def judged(name: str, entry: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with a table, whether or not it is enabled."""
    return list(_wrong(_account(name, entry)))


CHOICES = {"mode": (EVENTS, SOCKET), "reply_in_thread": (AUTO, ALWAYS, NEVER), "on_unknown": ("hold", "retry")}


def _wrong(account: Account) -> Iterator[Fault]:
    for key, allowed in CHOICES.items():
        if (given := getattr(account, key)) not in allowed:
            yield Fault(account.name, key, f"{key} is {given!r}", f"write one of {', '.join(allowed)}")
    needed = {"bot_token": account.bot_token}
    needed |= {"app_token": account.app_token} if account.socket else {"signing_secret": account.signing_secret}
    for key, value in needed.items():
        if not value:
            fix = f"{_WHERE[key]}, or name its variable in {key}_env"
            yield Fault(account.name, key, f"{key} is missing", fix)
        elif not value.startswith(_TOKENS.get(key, "")):
            yield Fault(account.name, key, f"{key} is no {_TOKENS[key]}… token", _WHERE[key])
    if account.owner and not re.fullmatch(r"(group-|private-)?[UWCGD][A-Z0-9]{2,}", account.owner):
        what, fix = f"owner {account.owner!r} is no Slack id", "copy the member ID from the profile"
        yield Fault(account.name, "owner", what, fix, fatal=False)
    if urlsplit(account.api_url).scheme not in ("http", "https"):
        yield Fault(account.name, "api_url", f"api_url {account.api_url!r} is no web address", "leave it out")


_WHERE = {
    "bot_token": "copy it from the app's page, OAuth & Permissions → Bot User OAuth Token",
    "signing_secret": "copy it from the app's page, Basic Information → Signing Secret",
    "app_token": "make one with connections:write on the app's page, Basic Information → App-Level Tokens",
}


def _tables() -> Mapping[str, Any]:
    tables: Mapping[str, Any] = lumia.config.get(NAME).accounts
    return tables


def _account(name: str, entry: Mapping[str, Any]) -> Account:
    url = str(entry.get("api_url", "")) or API_URL
    return Account(
        name,
        bot_token=_secret(entry, "bot_token"),
        signing_secret=_secret(entry, "signing_secret"),
        app_token=_secret(entry, "app_token"),
        mode=str(entry.get("mode", EVENTS)),
        api_url=url if url.endswith("/") else f"{url}/",
        reply_in_thread=str(entry.get("reply_in_thread", AUTO)),
        markdown=bool(entry.get("markdown", True)),
        owner=str(entry.get("owner", "")),
        on_unknown=str(entry.get("on_unknown", "hold")),
        enabled=bool(entry.get("enabled", True)),
    )


def _secret(entry: Mapping[str, Any], key: str) -> str:
    variable = str(entry.get(f"{key}_env", ""))
    return (os.environ.get(variable, "") if variable else str(entry.get(key, ""))).strip()
