"""The sources of config/webhook.toml, and whether a request comes from one."""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lumia
from lumia.adapters import Fault

from . import callback

NAME = "webhook"
SIGNATURE = "X-Lumia-Signature"
_SIGNATURE = SIGNATURE.lower()
_NAMED = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_log = logging.getLogger("lumia.webhook")


@dataclass(frozen=True)
class Source:
    """Who may post. token, secret: "" when there is none. rate: messages per minute, 0 for no limit."""

    name: str
    token: str = ""
    secret: str = ""
    callback_url: str = ""
    callback_hosts: tuple[str, ...] = ()
    media_hosts: tuple[str, ...] = ()
    rate: int = 0

    def sent(self, headers: Mapping[str, str], signed: bytes) -> bool:
        """Tell, in constant time, whether headers prove that this source sent `signed`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = _same(token.strip(), self.token) and scheme.lower() == "bearer"
        given = headers.get(_SIGNATURE, "")
        return bearer or (bool(given) and _same(given, self.signature(signed) if self.secret else ""))

    def signature(self, data: bytes) -> str:
        """Return the signature header of `data`, keyed with the secret, or with the token where there is none."""
        key = (self.secret or self.token).encode("utf-8", "replace")
        return "sha256=" + hmac.digest(key, data, "sha256").hex()


def _same(given: str, wanted: str) -> bool:
    equal = hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode("utf-8", "replace"))
    return equal and bool(wanted)


def find(name: str) -> Source | None:
    """Return a configured source, or None."""
    found = _sources().get(name)
    return found if found is None or isinstance(found, Source) else _source(name, found)


@lumia.config.derived(NAME)
def _sources() -> dict[str, Source | Mapping[str, Any]]:
    """Return the sources, and the tables of those that look into the environment."""
    named = {name: entry for name, entry in _tables().items() if _NAMED.fullmatch(name)}
    return {
        name: entry if entry.get("token_env") or entry.get("secret_env") else _source(name, entry)
        for name, entry in named.items()
    }


@lumia.config.derived("lumia")
def bot_name() -> str:
    """Return the name the bot is mentioned by."""
    return str(lumia.config.get("lumia").bot.name)


def how_to_add(name: str) -> str:
    """Say that there is no such source, and how to make one."""
    none = "no webhook source is configured" if not _tables() else "no webhook source has this name"
    shown = name if _NAMED.fullmatch(name) else "shop"
    return f'{none}; add one to config/webhook.toml: [sources.{shown}] with token = "…" or secret = "…"'


def check() -> None:
    """Log what is wrong with the configured sources."""
    for found in _faults():
        _log.error("config/webhook.toml: [sources.%s] %s; %s", found.account, found.what, found.fix)


def standing() -> dict[str, str]:
    """Return what is wrong with each configured source, "" for those that are served."""
    wrong = {found.account: f"{found.what}; {found.fix}" for found in _faults() if found.fatal}
    return {name: wrong.get(name, "") for name in _tables()}


def _faults() -> list[Fault]:
    return [fault for name, entry in _tables().items() for fault in judged(name, entry)]


@lumia.adapters.settings
def judged(name: str, entry: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with a table."""
    return list(_wrong(_source(name, entry), entry))


def _wrong(source: Source, entry: Mapping[str, Any]) -> Iterator[Fault]:
    name = source.name
    if not _NAMED.fullmatch(name):
        yield Fault(name, "", "is not served", "a name is 1 to 64 of A-Z a-z 0-9 _ . -")
    for key in ("token", "secret"):
        variable = str(entry.get(f"{key}_env") or "")
        if variable and not getattr(source, key):
            what, fix = f"{key}_env names {variable}, which is not set", f"set it, or write {key} in the file"
            yield Fault(name, f"{key}_env", what, fix, fatal=False)
    if not source.token and not source.secret:
        key = "secret" if entry.get("secret_env") else "token"
        fix = "choose one, and give it to the program that posts"
        yield Fault(name, key, "has neither token nor secret, so it refuses everything", fix)
    try:
        if source.callback_url:
            lumia.outside.check(source.callback_url, callback.places(source.callback_hosts))
    except lumia.errors.PlaceError as error:
        fix = "write it as https://shop.example.org/replies, or leave it out"
        yield Fault(name, "callback_url", str(error), fix, fatal=False)


@lumia.config.derived(NAME)
def _tables() -> Mapping[str, Any]:
    tables: Mapping[str, Any] = lumia.config.get(NAME).sources
    return tables


def _source(name: str, entry: Mapping[str, Any]) -> Source:
    return Source(
        name,
        token=_secret(entry, "token"),
        secret=_secret(entry, "secret"),
        callback_url=str(entry.get("callback_url", "")),
        callback_hosts=tuple(entry.get("callback_hosts", ())),
        media_hosts=tuple(entry.get("media_hosts", ())),
        rate=int(entry.get("rate", 0)),
    )


def _secret(entry: Mapping[str, Any], key: str) -> str:
    variable = str(entry.get(f"{key}_env", ""))
    return os.environ.get(variable, "") if variable else str(entry.get(key, ""))
