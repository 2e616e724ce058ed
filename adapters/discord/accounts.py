"""The bots of config/discord.toml, and what is wrong with them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import lumia
from lumia.adapters import Fault

NAME = "discord"
PID = 5
API = "https://discord.com/api/v10"
_NAMED = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SNOWFLAKE = re.compile(r"[0-9]{1,20}")
_KEY = re.compile(r"[0-9a-fA-F]{64}")
_COMMAND = re.compile(r"[-_'\w]{1,32}")


@dataclass(frozen=True)
class Account:
    """One bot. token, public_key: "" when there is none; secrets and everything else as the settings say."""

    name: str
    token: str = field(default="", repr=False)
    application_id: str = ""
    public_key: str = ""
    enabled: bool = True
    gateway: bool = True
    intents: int = 37377
    shards: int = 1
    compress: bool = True
    presence: str = ""
    owner: str = ""
    on_unknown: str = "hold"
    api_url: str = API
    gateway_url: str = ""

    @property
    def connects(self) -> bool:
        """Tell whether this bot has a connection to the Gateway."""
        return self.enabled and self.gateway and bool(self.token)

    @property
    def listens(self) -> bool:
        """Tell whether interactions are posted to this bot."""
        return self.enabled and bool(self.public_key)

    @property
    def authorization(self) -> str:
        """Return the header that proves who asks."""
        return f"Bot {self.token}"


@dataclass(frozen=True)
class Problem:
    """Something wrong with the settings. account: "" for what concerns them all; fix: the way out."""

    account: str
    message: str
    fix: str


def find(name: str) -> Account | None:
    """Return a configured bot that is enabled, or None."""
    entry = _tables("accounts").get(name)
    account = _account(name, entry) if entry is not None and _NAMED.fullmatch(name) else None
    return account if account is not None and account.enabled else None


def every() -> list[Account]:
    """Return the configured bots whose settings can be used; others go on without the rest."""
    wrong = {problem.account for problem in problems()}
    return [_account(name, entry) for name, entry in _tables("accounts").items() if name not in wrong]


def names() -> set[str]:
    """Return the names of all bots of the settings, whatever is wrong with them."""
    return set(_tables("accounts"))


def default_name() -> str:
    """Return the only enabled bot's name, "" when there is none or a choice."""
    names = [account.name for account in every() if account.enabled]
    return names[0] if len(names) == 1 else ""


def problems() -> list[Problem]:
    """Return what is wrong with the settings, by account."""
    faults = [fault for name, entry in _tables("accounts").items() for fault in judged(name, entry)]
    found = [Problem(one.account, f"config/discord.toml: [accounts.{one.account}] {one.what}", one.fix)
             for one in faults]  # fmt: skip
    return found + [problem for name, entry in _tables("commands").items() for problem in _wrong_command(name, entry)]


@lumia.adapters.settings
def judged(name: str, entry: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with a bot's table."""
    return list(_wrong(name, entry))


def commands() -> list[dict[str, Any]]:
    """Return the slash commands as Discord registers them."""
    return [
        _command(name, entry) for name, entry in _tables("commands").items() if not list(_wrong_command(name, entry))
    ]


def _account(name: str, entry: Mapping[str, Any]) -> Account:
    return Account(
        name,
        token=_secret(entry, "token").strip().removeprefix("Bot ").strip(),
        application_id=str(entry.get("application_id", "")).strip(),
        public_key=str(entry.get("public_key", "")).strip().lower(),
        enabled=bool(entry.get("enabled", True)),
        gateway=bool(entry.get("gateway", True)),
        intents=int(entry.get("intents", 37377)),
        shards=int(entry.get("shards", 1)),
        compress=bool(entry.get("compress", True)),
        presence=str(entry.get("presence", "")),
        owner=str(entry.get("owner", "")).strip(),
        on_unknown=str(entry.get("on_unknown", "hold")),
        api_url=str(entry.get("api_url") or API).rstrip("/"),
        gateway_url=str(entry.get("gateway_url", "")).rstrip("/"),
    )


def _secret(entry: Mapping[str, Any], key: str) -> str:
    variable = str(entry.get(f"{key}_env", ""))
    return os.environ.get(variable, "") if variable else str(entry.get(key, ""))


def _wrong(name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    if not _NAMED.fullmatch(name):
        yield Fault(name, "", "is not used", "name it with 1 to 64 of A-Z a-z 0-9 _ . -")
        return
    account = _account(name, entry)
    variable = str(entry.get("token_env", ""))
    if variable and not account.token:
        fix = f"set {variable}, or paste the token as token"
        yield Fault(name, "token_env", f"token_env: {variable} is not set", fix)
    elif not account.token and not account.public_key:
        fix = "paste the token of https://discord.com/developers/applications, your application, Bot, Reset Token"
        yield Fault(name, "token", "has neither token nor public_key, so nothing reaches it", fix)
    if account.token and not (account.token.isascii() and account.token.isprintable() and " " not in account.token):
        yield Fault(name, "token", "token holds spaces or other characters no token has", "paste the token again")
    if account.public_key and not _KEY.fullmatch(account.public_key):
        fix = "copy it from your application's General Information"
        yield Fault(name, "public_key", "public_key is no key of 64 hex digits", fix)
    if account.public_key and not account.token and not account.application_id:
        fix = "copy it from your application's General Information"
        yield Fault(name, "application_id", "has no application_id", fix)
    for key in ("application_id", "owner"):
        if getattr(account, key) and not _SNOWFLAKE.fullmatch(getattr(account, key)):
            yield Fault(name, key, f"{key} is no id of Discord", "ids are numbers such as 80351110224678912")
    if len(account.presence) > 128:
        yield Fault(name, "presence", "presence is longer than 128 characters", "shorten it")
    for key, schemes in (("api_url", ("http", "https")), ("gateway_url", ("ws", "wss"))):
        text = getattr(account, key)
        if text and not _address(text, schemes):
            yield Fault(name, key, f"{key} is no {schemes[1]}:// address", "leave it out to use Discord's own")


def _address(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _wrong_command(name: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    where = f"config/discord.toml: [commands.{name}]"
    if not _COMMAND.fullmatch(name) or name != name.lower():
        yield Problem(
            "", f"{where} is not registered", "a command's name is 1 to 32 letters, digits, - or _, in lower case"
        )
    if not 1 <= len(str(entry.get("description", ""))) <= 100:
        yield Problem("", f"{where} is not registered", "give it a description of 1 to 100 characters")
    option = str(entry.get("option", ""))
    if option and (not _COMMAND.fullmatch(option) or option != option.lower()):
        yield Problem(
            "", f"{where} is not registered", "an option's name is 1 to 32 letters, digits, - or _, in lower case"
        )


def _command(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    option = str(entry.get("option", ""))
    about = str(entry.get("option_description", ""))[:100] or option
    given = {"type": 3, "name": option, "description": about, "required": bool(entry.get("required", False))}
    return {"type": 1, "name": name, "description": entry["description"], "options": [given] if option else []}


def _tables(key: str) -> Mapping[str, Any]:
    tables: Mapping[str, Any] = getattr(lumia.config.get(NAME), key)
    return tables
