"""The bots of config/telegram.toml, and what is wrong with them."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import lumia
from lumia.adapters import Fault

NAME = "telegram"
API_URL = "https://api.telegram.org"
POLLING, WEBHOOK = "polling", "webhook"
PORTS = (443, 80, 88, 8443)
"""Ports that Telegram posts to."""
UPDATES = (
    "message", "edited_message", "channel_post", "edited_channel_post", "business_connection", "business_message",
    "edited_business_message", "deleted_business_messages", "guest_message", "message_reaction",
    "message_reaction_count", "inline_query", "chosen_inline_result", "callback_query", "shipping_query",
    "pre_checkout_query", "purchased_paid_media", "poll", "poll_answer", "my_chat_member", "chat_member",
    "chat_join_request", "chat_boost", "removed_chat_boost", "managed_bot", "subscription",
    "stopped_message_generation",
)  # fmt: skip
"""What an update may hold (Bot API 10.3)."""
TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{10,128}")
_NAMED = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_FILE = "config/telegram.toml"


@dataclass(frozen=True)
class Account:
    """One bot. token, secret_token: "" when there is none; secrets are never shown by `repr`."""

    name: str
    token: str = field(default="", repr=False)
    enabled: bool = True
    mode: str = POLLING
    public_url: str = ""
    secret_token: str = field(default="", repr=False)
    allowed_updates: tuple[str, ...] = ()
    drop_pending: bool = False
    max_connections: int = 40
    poll_seconds: int = 50
    api_url: str = API_URL
    proxy: str = field(default="", repr=False)
    owner: str = ""
    on_unknown: str = "hold"
    markdown: bool = True
    link_preview: bool = True
    typing: bool = False

    @property
    def bot_id(self) -> str:
        """The bot's user id, which is the first half of its token."""
        return self.token.partition(":")[0]

    @property
    def works(self) -> bool:
        """Tell whether it can be used at all."""
        return self.enabled and not any(True for _ in faults(self))

    @property
    def webhook_url(self) -> str:
        """Where Telegram is told to post, or "" when the operator sets the webhook himself."""
        return f"{self.public_url.rstrip('/')}/telegram/{self.name}" if self.public_url else ""

    def webhook_secret(self) -> str:
        """Return what Telegram sends in X-Telegram-Bot-Api-Secret-Token; needs the running bot's secret."""
        if self.secret_token:
            return self.secret_token
        key = lumia.runtime.current().secret
        return hmac.new(key, f"telegram webhook {self.name} {self.bot_id}".encode(), hashlib.sha256).hexdigest()


def find(name: str) -> Account | None:
    """Return a configured bot, or None."""
    entry = _tables().get(name)
    return None if entry is None else of(name, entry)


def required(name: str) -> Account:
    """Return a bot that can send; raises `lumia.errors.PayloadError` saying why there is none."""
    found = find(name)
    if found is None:
        raise lumia.errors.PayloadError(f"no Telegram bot is called {name!r}; add [accounts.{name}] to {_FILE}")
    if not found.enabled:
        raise lumia.errors.PayloadError(f"{_FILE}: [accounts.{name}] is switched off, nothing is sent by it")
    for why, fix in faults(found):
        raise lumia.errors.PayloadError(f"{why}; {fix}")
    return found


def every() -> list[Account]:
    """Return all configured bots, whatever is wrong with them."""
    return [of(name, entry) for name, entry in _tables().items()]


def only() -> str:
    """Return the name of the only usable bot, or ""."""
    usable = [one.name for one in every() if one.enabled]
    return usable[0] if len(usable) == 1 else ""


def of(name: str, entry: Mapping[str, Any]) -> Account:
    """Return the account of one table."""
    return Account(
        name,
        token=_secret(entry, "token"),
        enabled=bool(entry.get("enabled", True)),
        mode=str(entry.get("mode") or POLLING),
        public_url=str(entry.get("public_url", "")).strip(),
        secret_token=_secret(entry, "secret_token"),
        allowed_updates=tuple(entry.get("allowed_updates", ())),
        poll_seconds=int(entry.get("poll_seconds", 50)),
        drop_pending=bool(entry.get("drop_pending", False)),
        max_connections=int(entry.get("max_connections", 40)),
        api_url=str(entry.get("api_url") or API_URL).rstrip("/"),
        proxy=_secret(entry, "proxy"),
        owner=str(entry.get("owner", "")),
        on_unknown=str(entry.get("on_unknown") or "hold"),
        markdown=bool(entry.get("markdown", True)),
        link_preview=bool(entry.get("link_preview", True)),
        typing=bool(entry.get("typing", False)),
    )


@lumia.adapters.settings
def judged(name: str, entry: Mapping[str, Any]) -> list[Fault]:
    """Return what keeps the bot of a table from working."""
    return list(_wrong(of(name, entry)))


def faults(account: Account) -> Iterator[tuple[str, str]]:
    """Yield what keeps a bot from working, each as (what is wrong and where, the way out)."""
    for fault in _wrong(account):
        yield f"{_FILE}: [accounts.{account.name}] {fault.what}", fault.fix


def _wrong(account: Account) -> Iterator[Fault]:
    name = account.name
    if not _NAMED.fullmatch(name):
        yield Fault(name, "", "is not served", "a name is 1 to 64 of A-Z a-z 0-9 _ . -")
    if not account.token:
        fix = "ask @BotFather for one and put it into token, or its variable into token_env"
        yield Fault(name, "token", "has no token", fix)
    elif not TOKEN.fullmatch(account.token):
        fix = "one looks like 123456789:AAF…; copy it again from @BotFather"
        yield Fault(name, "token", "token isn't one of Telegram's", fix)
    if account.secret_token and not _SECRET.fullmatch(account.secret_token):
        fix = "1 to 256 of A-Z a-z 0-9 _ -, or none to have one derived"
        yield Fault(name, "secret_token", "secret_token can't be used", fix)
    if _no_url(account.api_url):
        yield Fault(name, "api_url", "api_url is no http(s) address", f"leave it out for {API_URL}")
    if account.proxy and _no_url(account.proxy):
        fix = "write it as http://127.0.0.1:7890, or leave it out"
        yield Fault(name, "proxy", "proxy is no http(s) address", fix)
    if account.public_url and _no_url(account.public_url):
        fix = "write it as https://bot.example.org"
        yield Fault(name, "public_url", "public_url is no https address", fix)


def remarks(account: Account) -> Iterator[tuple[str, str]]:
    """Yield what may not be meant so, in the same form."""
    table = f"{_FILE}: [accounts.{account.name}]"
    if unknown := [kind for kind in account.allowed_updates if kind not in UPDATES]:
        yield f"{table} allowed_updates names {', '.join(unknown)}, unknown to this version", "see docs/telegram.md"
    if account.allowed_updates and "message" not in account.allowed_updates:
        yield f"{table} allowed_updates is without message: nothing said is heard", "add message to it"
    if account.mode == WEBHOOK and account.public_url and account.api_url == API_URL:
        url = urlsplit(account.public_url)
        if url.scheme != "https" or (url.port or 443) not in PORTS:
            yield f"{table} public_url: Telegram posts to https on the ports 443, 80, 88 and 8443", "change public_url"
    if account.mode == WEBHOOK and not account.public_url:
        yield f"{table} has no public_url: Telegram isn't told where to post", "set public_url, or the webhook yourself"


def _no_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme not in ("http", "https") or not url.hostname or (url.port or 1) < 1
    except ValueError:
        return True


def _tables() -> Mapping[str, Any]:
    tables: Mapping[str, Any] = lumia.config.get(NAME).accounts
    return tables


def _secret(entry: Mapping[str, Any], key: str) -> str:
    variable = str(entry.get(f"{key}_env", ""))
    return os.environ.get(variable, "").strip() if variable else str(entry.get(key, "")).strip()
