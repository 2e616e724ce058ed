"""Asking Slack whether an account works: `lumia adapters test`."""

from __future__ import annotations

from lumia.adapters import Checked
from lumia.errors import LumiaError

from . import api, socketmode
from .accounts import Account
from .watch import identity

SCOPES = frozenset({"chat:write"})
"""Without these the bot can't answer."""
USEFUL = {
    "app_mentions:read": "mentions",
    "channels:history": "messages in public channels",
    "groups:history": "messages in private channels",
    "im:history": "direct messages",
    "mpim:history": "group conversations",
    "users:read": "names",
    "files:read": "files people send",
    "files:write": "files the bot sends",
    "im:write": "writing to somebody first",
    "commands": "slash commands",
}
"""What each scope is for, for those that the manifest of docs/slack.md asks for."""


def ask(account: Account) -> Checked:
    """Return who the bot is and which scopes it lacks; with Socket Mode also whether a connection may be opened."""
    try:
        answer = api.ask(account, "auth.test", {})
        if account.socket:
            socketmode.open_url(account)
    except LumiaError as error:
        return Checked(False, detail=str(error))
    lacking = sorted(SCOPES - answer.scopes) if answer.scopes else []
    if lacking:
        return Checked(
            False, identity(answer.data), f"the scope {', '.join(lacking)} is missing; add it and reinstall the app"
        )
    without = [f"{scope} ({use})" for scope, use in USEFUL.items() if scope not in answer.scopes]
    note = f"without the scopes {', '.join(without)}" if without and answer.scopes else ""
    return Checked(True, identity(answer.data), note)
