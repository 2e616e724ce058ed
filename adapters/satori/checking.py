"""Whether a server takes the token and has the login (`lumia adapters test`), and what `lumia doctor` tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia
from lumia.adapters import Checked
from lumia.errors import LumiaError

from . import accounts, api, incoming
from .accounts import FILE, Server
from .logins import ONLINE


def check(name: str) -> Checked:
    """Ask a server who its logins are."""
    table = name.partition("/")[0]
    wrong = [f"{accounts.where(one)}; {one.fix}" for one in accounts.faults() if one.account == table]
    server = accounts.find(name.partition("/")[0])
    if wrong or server is None:
        return Checked(ok=False, detail="; ".join(wrong) or f"{FILE} has no enabled [accounts.{name}]")
    try:
        if server.only is not None or "/" in name:
            _, who = accounts.required(name)
            return _judged([api.login(server, who)])
        return _judged(_served(server, api.logins(server)))
    except LumiaError as error:
        return Checked(ok=False, detail=str(error))


def _served(server: Server, given: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    named = [(one, incoming.login_of({"login": one})) for one in given]
    return [one for one, who in named if who is not None and server.serves(who)]


def _judged(found: list[Mapping[str, Any]]) -> Checked:
    if not found:
        return Checked(ok=False, detail="the Satori server has no such login; connect one there first")
    names = ", ".join(_named(one) for one in found)
    off = [_named(one) for one in found if one.get("status", ONLINE) != ONLINE]
    detail = f"not online at the Satori server: {', '.join(off)}" if off else ""
    return Checked(ok=len(off) < len(found), identity=names, detail=detail)


def _named(login: Mapping[str, Any]) -> str:
    user = incoming.part(login, "user")
    who = incoming.login_of({"login": login})
    name = str(user.get("nick") or user.get("name") or "")
    return f"{name} ({who.platform} {who.self_id})".strip() if who is not None else name or "a login without a name"


def findings() -> list[lumia.checks.Finding]:
    """Return what `lumia doctor` tells of the settings."""
    found = [lumia.checks.fail(accounts.where(one), one.fix) for one in accounts.faults()]
    if found:
        return found
    usable = [server.name for server in accounts.servers() if server.enabled]
    if not usable:
        return [lumia.checks.ok("no account; docs/satori.md says how to add one")]
    return [lumia.checks.ok(f"accounts: {', '.join(usable)}")]
