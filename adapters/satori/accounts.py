"""The servers of config/satori.toml, what is wrong with them, and the accounts: each login of a server is one."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import lumia
from lumia.adapters import Fault

NAME = "satori"
FILE = "config/satori.toml"
WEBSOCKET, WEBHOOK = "websocket", "webhook"
_NAMED = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SAFE = "@:.~!$'()*+,;= "
"""Signs of a platform's name or a user's id that may stand in an account's name."""


@dataclass(frozen=True)
class Login:
    """Who the bot is on a platform: what the headers Satori-Platform and Satori-User-ID say."""

    platform: str
    self_id: str


@dataclass(frozen=True)
class Server:
    """One `[accounts.<name>]`. token, webhook_token: "" when there is none. platform, self_id: "" for any.

    split_at: characters of a message at most. media_hosts: inner hosts that files may be fetched from.
    """

    name: str
    url: str = ""
    token: str = field(default="", repr=False)
    mode: str = WEBSOCKET
    webhook_token: str = field(default="", repr=False)
    platform: str = ""
    self_id: str = ""
    enabled: bool = True
    owner: str = ""
    on_unknown: str = "hold"
    split_at: int = 2000
    media_hosts: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """Return where the HTTP API is."""
        return f"{self.url}/v1"

    @property
    def socket(self) -> str:
        """Return where events come from."""
        return f"ws{self.api.removeprefix('http')}/events"

    @property
    def only(self) -> Login | None:
        """Return the one login this table is about, None when it is about several."""
        return Login(self.platform, self.self_id) if self.platform and self.self_id else None

    def serves(self, login: Login) -> bool:
        """Tell whether a login of the server is one of these accounts."""
        return self.platform in ("", login.platform) and self.self_id in ("", login.self_id)

    def account(self, login: Login) -> str:
        """Return the name of a login's account; a platform's name and an id are quoted, so that it can be read back."""
        if self.only is not None:
            return self.name
        return f"{self.name}/{quote(login.platform, safe=_SAFE)}/{quote(login.self_id, safe=_SAFE)}"

    def told(self, token: str) -> bool:
        """Tell in constant time whether a post's token is right; without one of its own no post is taken."""
        same = hmac.compare_digest(token.encode("utf-8", "replace"), self.webhook_token.encode("utf-8", "replace"))
        return same and bool(self.webhook_token)


def servers() -> list[Server]:
    """Return the servers whose settings can be used, in the file's order."""
    wrong = {fault.account for fault in faults()}
    return [_server(name, entry) for name, entry in _tables().items() if name not in wrong]


def faults() -> list[Fault]:
    """Return what is wrong in the file."""
    return [fault for name, entry in _tables().items() for fault in judged(name, entry)]


@lumia.adapters.settings
def judged(name: str, entry: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with a table."""
    return list(_wrong(_server(name, entry), entry))


def where(fault: Fault) -> str:
    """Return what is wrong, and where."""
    return f"{FILE}: [accounts.{fault.account}] {fault.what}"


def find(name: str) -> Server | None:
    """Return the enabled server with usable settings of that name."""
    return next((server for server in servers() if server.name == name and server.enabled), None)


def default() -> str:
    """Return the account that sends what names none: the only server there is, "" when there are several."""
    names = [server.name for server in servers() if server.enabled]
    return names[0] if len(names) == 1 else ""


def required(account: str) -> tuple[Server, Login]:
    """Return an account's server and login; raises `lumia.errors.PayloadError` when there is none.

    The bare name of a server of several logins stands for its login as long as it has one only.
    """
    table, _, rest = account.partition("/")
    server = find(table)
    if server is None:
        raise lumia.errors.PayloadError(f"{FILE} has no enabled [accounts.{table}] that works, so nobody can send this")
    if rest:
        platform, _, self_id = rest.partition("/")
        login = Login(unquote(platform), unquote(self_id))
        if platform and self_id and "/" not in self_id and server.serves(login) and server.only is None:
            return server, login
        raise lumia.errors.PayloadError(f"[accounts.{table}] of {FILE} doesn't serve an account {account!r}")
    if server.only is not None:
        return server, server.only
    known = remembered(server)
    if len(known) == 1:
        return server, known[0]
    names = ", ".join(sorted(server.account(login) for login in known)) or "none has been seen yet"
    raise lumia.errors.PayloadError(f"account {account!r} is a server of several logins; name one of them ({names})")


def remembered(server: Server) -> list[Login]:
    """Return the logins that the server named when it was last heard."""
    found = lumia.store.of(NAME).get("logins", [], scope=server.name)
    pairs = [one for one in found if isinstance(one, list) and len(one) == 2] if isinstance(found, list) else []
    return [login for login in (Login(str(one[0]), str(one[1])) for one in pairs) if server.serves(login)]


def remember(server: Server, logins: list[Login]) -> None:
    """Keep the logins of a server."""
    lumia.store.of(NAME).set("logins", [[one.platform, one.self_id] for one in logins], scope=server.name)


def _tables() -> Mapping[str, Any]:
    tables: Mapping[str, Any] = lumia.config.get(NAME).accounts
    return tables


def _server(name: str, entry: Mapping[str, Any]) -> Server:
    base = Server(name)
    return Server(
        name=name,
        url=str(entry.get("url") or "").strip().rstrip("/").removesuffix("/v1"),
        token=_secret(entry, "token"),
        mode=str(entry.get("mode") or base.mode),
        webhook_token=_secret(entry, "webhook_token"),
        platform=str(entry.get("platform") or "").strip(),
        self_id=str(entry.get("self_id") or "").strip(),
        enabled=bool(entry.get("enabled", True)),
        owner=str(entry.get("owner") or "").strip(),
        on_unknown=str(entry.get("on_unknown") or base.on_unknown),
        split_at=int(entry.get("split_at", base.split_at)),
        media_hosts=tuple(entry.get("media_hosts", ())),
    )


def _secret(entry: Mapping[str, Any], key: str) -> str:
    variable = str(entry.get(f"{key}_env") or "")
    return (os.environ.get(variable, "") if variable else str(entry.get(key) or "")).strip()


def _wrong(server: Server, entry: Mapping[str, Any]) -> Iterator[Fault]:
    name = server.name
    if not _NAMED.fullmatch(name):
        yield Fault(name, "", "has a name that can't be in a path", "a name is 1 to 64 of A-Z a-z 0-9 _ . -")
    if server.mode not in (WEBSOCKET, WEBHOOK):
        yield Fault(name, "mode", f"mode is {server.mode!r}", f"it is {WEBSOCKET} or {WEBHOOK}")
    if server.on_unknown not in ("hold", "retry"):
        yield Fault(name, "on_unknown", f"on_unknown is {server.on_unknown!r}", "it is hold or retry")
    if server.self_id and not server.platform:
        fix = 'write the platform that id is of, e.g. platform = "qq"'
        yield Fault(name, "platform", "has a self_id but no platform", fix)
    if not _is_url(server.url):
        what = "url is no http:// or https:// address without a query or a password"
        yield Fault(name, "url", what, 'write url = "http://127.0.0.1:5140/satori", and the token as token')
    if server.mode == WEBHOOK and server.enabled and not server.webhook_token:
        what, fix = "has no webhook_token, so anybody could post", "choose one, and tell it to the Satori server"
        yield Fault(name, "webhook_token", what, fix)
    for key in ("token", "webhook_token"):
        variable = str(entry.get(f"{key}_env") or "")
        if variable and variable not in os.environ:
            what, fix = f"{key}_env names {variable}, which is not set", f"set it, or write {key} in the file"
            yield Fault(name, f"{key}_env", what, fix)
        secret = getattr(server, key)
        if not (secret.isascii() and secret.isprintable() and " " not in secret):
            yield Fault(name, key, f"{key} holds signs that can't be in a header", "paste it again")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = parts.username is None and parts.password is None and not parts.query and not parts.fragment
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and plain
    except ValueError:
        return False
