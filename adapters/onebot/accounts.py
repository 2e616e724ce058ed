"""The accounts of config/onebot.toml: `[accounts.<name>]`, what is wrong with them, and whose a connection is."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import lumia
from lumia.adapters import Fault

NAME = "onebot"
FILE = "config/onebot.toml"
MODES = ("reverse", "forward", "http")
POLICIES = ("hold", "retry")
ANY = "*"
_NAMED = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Account:
    """One bot account, or the template of several when `self_id` is "*".

    mode: reverse (the OneBot side connects here), forward (we connect to `url`) or http (actions to `url`, events are
    posted here). self_id: the bot's QQ number, "" when any one bot may come. token, secret: "" when there is none.
    interval: seconds between two messages to one chat. split_at: characters of a message at most. backfill_minutes,
    backfill_max: how old, and how many per chat, messages of an outage may be to be fetched. media_hosts: inner
    hosts that files may be fetched from.
    """

    name: str
    mode: str = "reverse"
    url: str = ""
    token: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    self_id: str = ""
    enabled: bool = True
    owner: str = ""
    on_unknown: str = "hold"
    verify_unknown: bool = True
    backfill_minutes: float = 30.0
    backfill_max: int = 50
    interval: float = 0.5
    split_at: int = 3000
    media_hosts: tuple[str, ...] = ()

    @property
    def queue(self) -> str | None:
        """Return the queue of what only the process with the connection can do, None when any worker can."""
        return None if self.mode == "http" else lumia.adapters.queue(NAME, self.name)

    def told(self, token: str) -> bool:
        """Tell in constant time whether `token` is this account's; where it has none, no token is the right one."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode("utf-8", "replace"))

    def signed(self, body: bytes, signature: str) -> bool:
        """Tell in constant time whether a report's `X-Signature` is right; without a secret none is.

        NapCat signs with its token, so `access_token` is the key where there is no `secret`.
        """
        key = (self.secret or self.token).encode("utf-8", "replace")
        wanted = "sha1=" + hmac.new(key, body, hashlib.sha1).hexdigest()
        same = hmac.compare_digest(signature.strip().lower().encode("utf-8", "replace"), wanted.encode())
        return same and bool(key)

    def of(self, self_id: str) -> Account:
        """Return the account of one bot: a template's are named `<name>.<self id>`."""
        return replace(self, name=f"{self.name}.{self_id}", self_id=self_id) if self.self_id == ANY else self


def accounts() -> list[Account]:
    """Return the accounts that can work, in the file's order; what is wrong with others is among the `faults`."""
    return [account for account, found in _judged() if not any(one.fatal for one in found)]


def faults() -> list[Fault]:
    """Return what is wrong, or will surprise, in the file."""
    return [fault for _, found in _judged() for fault in found] + list(_twins())


@lumia.adapters.settings
def judged(name: str, entry: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with a table."""
    return list(_wrong(_account(name, entry), entry))


def where(fault: Fault) -> str:
    """Return what is wrong, and where."""
    return f"{FILE}: [accounts.{fault.account}] {fault.what}"


def find(name: str) -> Account | None:
    """Return the account of that name: configured, or one bot of a template."""
    for account in accounts():
        if account.name == name:
            return account
        if account.self_id == ANY and name.startswith(f"{account.name}."):
            self_id = name.removeprefix(f"{account.name}.")
            return account.of(self_id) if self_id.isdecimal() else None
    return None


def required(name: str, what: str) -> Account:
    """Return the account of that name; raises `lumia.errors.PayloadError` saying what wants it when it doesn't work."""
    found = find(name) if name else None
    if found is None or not found.enabled:
        known = ", ".join(account.name for account in accounts()) or "none"
        raise lumia.errors.PayloadError(
            f"{what}: account {name!r} is not one of those in {FILE} that work ({known}); name it in the Box: "
            'lumia.Box.any(…, meta={"account": "…"})'
        )
    return found


def default() -> str:
    """Return the account that sends what names none: the only one there is, "" when there are several."""
    names = [account.name for account in accounts() if account.enabled and account.self_id != ANY]
    return names[0] if len(names) == 1 else ""


def admitted(token: str, self_id: str) -> Account | str:
    """Return whose a reverse connection is, or why it is nobody's: "token", or a sentence about the number.

    An account that names this number comes before those that take any.
    """
    open_to = [account for account in accounts() if account.mode == "reverse" and account.enabled]
    known = [account for account in open_to if account.told(token)]  # every token is compared
    if not known:
        return "token"
    exact = [account for account in known if account.self_id == self_id]
    anyone = [account for account in known if account.self_id in ("", ANY)]
    if exact or anyone:
        return (exact or anyone)[0].of(self_id)
    wanted = ", ".join(sorted(account.self_id for account in known))
    return f"the token is of an account with another self_id ({wanted}); add an account for {self_id} to {FILE}"


def _judged() -> Iterator[tuple[Account, list[Fault]]]:
    tables: Mapping[str, Any] = lumia.config.get(NAME).accounts
    for name, entry in tables.items():
        yield _account(name, entry), judged(name, entry)


def _account(name: str, entry: Mapping[str, Any]) -> Account:
    base = Account(name)
    return Account(
        name=name,
        mode=str(entry.get("mode") or base.mode),
        url=str(entry.get("url") or ""),
        token=_secret(entry, "access_token"),
        secret=_secret(entry, "secret"),
        self_id=str(entry.get("self_id") or "").strip(),
        enabled=bool(entry.get("enabled", True)),
        owner=str(entry.get("owner") or ""),
        on_unknown=str(entry.get("on_unknown") or base.on_unknown),
        verify_unknown=bool(entry.get("verify_unknown", base.verify_unknown)),
        backfill_minutes=float(entry.get("backfill_minutes", base.backfill_minutes)),
        backfill_max=int(entry.get("backfill_max", base.backfill_max)),
        interval=float(entry.get("interval", base.interval)),
        split_at=int(entry.get("split_at", base.split_at)),
        media_hosts=tuple(entry.get("media_hosts", ())),
    )


def _secret(entry: Mapping[str, Any], key: str) -> str:
    variable = str(entry.get(f"{key}_env") or "")
    return os.environ.get(variable, "") if variable else str(entry.get(key) or "")


def _wrong(account: Account, entry: Mapping[str, Any]) -> Iterator[Fault]:
    name = account.name
    if not _NAMED.fullmatch(name):
        yield Fault(name, "", "has a name that can't be in a path", "a name is 1 to 64 of A-Z a-z 0-9 _ . -")
    if account.mode not in MODES:
        yield Fault(name, "mode", f"mode is {account.mode!r}", f"it is one of {', '.join(MODES)}")
    if account.on_unknown not in POLICIES:
        yield Fault(name, "on_unknown", f"on_unknown is {account.on_unknown!r}", f"it is one of {', '.join(POLICIES)}")
    if account.self_id and account.self_id != ANY and not account.self_id.isdecimal():
        fix = 'it is a QQ number in quotes, or "*" for any number of bots'
        yield Fault(name, "self_id", f"self_id is {account.self_id!r}", fix)
    if account.self_id == ANY and account.mode != "reverse":
        fix = 'only mode = "reverse" serves several bots; give it one number'
        yield Fault(name, "self_id", 'self_id is "*"', fix)
    schemes = {"forward": ("ws", "wss"), "http": ("http", "https")}.get(account.mode, ())
    if schemes and not _is_url(account.url, schemes):
        yield Fault(name, "url", f"mode {account.mode} needs a url", f'write url = "{schemes[0]}://host:port"')
    elif schemes and not _is_bare(account.url):
        what = "has a url with a query or a password in it, and urls are shown in states and logs"
        yield Fault(name, "url", what, "write the token as access_token")
    elif account.mode == "forward" and (half := urlsplit(account.url).path.rstrip("/")) in ("/api", "/event"):
        what = f"has a url that ends in {half}, where OneBot gives only {'actions' if half == '/api' else 'events'}"
        yield Fault(name, "url", what, f"leave {half} out, since both have to come that way", fatal=half == "/api")
    if account.mode == "http" and not (account.secret or account.token):
        fix = "set secret, the key of X-Signature, on both sides"
        key = "access_token" if entry.get("access_token_env") else "secret"
        yield Fault(name, key, "has neither secret nor access_token", fix)
    for key in ("access_token", "secret"):
        variable = str(entry.get(f"{key}_env") or "")
        if variable and variable not in os.environ:
            what, fix = f"{key}_env names {variable}, which is not set", f"set it, or write {key} in the file"
            yield Fault(name, f"{key}_env", what, fix)


def _is_url(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_bare(url: str) -> bool:
    """Tell whether a URL, which states and logs show, holds nothing secret."""
    parts = urlsplit(url)
    return not parts.query and not parts.username and not parts.password


def _twins() -> Iterator[Fault]:
    seen: dict[tuple[str, str], str] = {}
    for account in accounts():
        if account.mode != "reverse" or not account.enabled:
            continue
        key = (account.token, account.self_id)
        first = seen.setdefault(key, account.name)
        if first != account.name:
            what = f"has the token and the self_id of [accounts.{first}], so nobody can tell their connections apart"
            yield Fault(account.name, "self_id", what, "give each account its self_id", fatal=False)
