"""Whether Discord takes an account's credentials, and whether its intents are switched on (`lumia adapters test`)."""

from __future__ import annotations

import lumia
from lumia.adapters import Checked
from lumia.errors import LumiaError

from . import accounts, rest

_PERMISSIONS = sum(1 << bit for bit in (6, 10, 11, 14, 15, 16, 38))
"""React, see channels, send, embed links, attach files, read the history, send in threads."""
_PRIVILEGED = (
    (1 << 15, rest.CONTENT_GRANTED, "Message Content Intent"),
    (1 << 1, rest.MEMBERS_GRANTED, "Server Members Intent"),
    (1 << 8, rest.PRESENCES_GRANTED, "Presence Intent"),
)


def check(name: str) -> Checked:
    """Ask Discord who an account is."""
    wrong = [problem for problem in accounts.problems() if problem.account == name]
    account = accounts.find(name)
    if wrong or account is None:
        told = (
            f"{wrong[0].message}: {wrong[0].fix}" if wrong else f"config/discord.toml has no enabled [accounts.{name}]"
        )
        return Checked(ok=False, detail=told)
    if not account.token:
        return Checked(ok=True, identity=f"application {account.application_id}", detail="serves interactions only")
    try:
        me, application = rest.myself(account), rest.application(account)
    except LumiaError as error:
        return Checked(ok=False, detail=str(error))
    identity = f"{me.get('username')} ({me.get('id')})"
    missing = _missing(account.intents, int(application.get("flags") or 0)) if account.connects else []
    if missing:
        where = "https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents"
        return Checked(ok=False, identity=identity, detail=f"switch on {' and '.join(missing)} at {where}")
    return Checked(ok=True, identity=identity, detail=_about(account, str(application.get("id", ""))))


def _missing(intents: int, flags: int) -> list[str]:
    return [name for bit, granted, name in _PRIVILEGED if intents & bit and not flags & granted]


def _about(account: accounts.Account, application: str) -> str:
    invite = (
        f"https://discord.com/oauth2/authorize?client_id={application}&scope=bot+applications.commands"
        f"&permissions={_PERMISSIONS}"
    )
    return f"invite it with {invite}" if application else f"connects as {account.name}"


def findings() -> list[lumia.checks.Finding]:
    """Return what `lumia doctor` tells of the settings."""
    found = [lumia.checks.fail(problem.message, problem.fix) for problem in accounts.problems()]
    if found:
        return found
    usable = [account.name for account in accounts.every() if account.enabled]
    if not usable:
        return [lumia.checks.ok("no account; docs/discord.md says how to add one")]
    return [lumia.checks.ok(f"accounts: {', '.join(usable)}")]
