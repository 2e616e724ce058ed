"""Discord: messages by the Gateway, slash commands by webhook, replies by REST (DESIGN §10, pid 5)."""

from __future__ import annotations

import logging
from typing import Any

import lumia

from . import accounts, asking, connections, delivery, interactions, rest
from .accounts import NAME
from .api import shared
from .web import receive

__all__ = ["receive"]


VERSION = lumia.__version__
_log = logging.getLogger("lumia.discord")


def on_load() -> None:
    """Register the adapter (spec §6.2) and tell what is wrong with its settings."""
    lumia.system.adapters.reg(NAME, VERSION, platform=NAME)
    for problem in accounts.problems():
        _log.error("%s: %s", problem.message, problem.fix)


def on_unload() -> None:
    """Close this process's connections to the REST API."""
    shared.close()


@lumia.event.consumer("bus.adapters.discord.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(NAME, VERSION)


@lumia.web.resident
async def connect() -> None:
    """Keep the configured bots connected to the Gateway."""
    await connections.serve()


@lumia.event.consumer_re("msg.send, dest=5.discord.*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Hand a reply on to its chat's lane; one that names no message answers the slash command its run began with."""
    value, account = content.into(), str(content.meta.get("account") or accounts.default_name())
    if not (isinstance(value, dict) and value.get("reply_to")) and account:
        root = lumia.context.required("discord.deliver").claim.root_id
        asked = interactions.begun(account, lumia.payloads.parse_destination(src).id, root)
        if asked:
            said = value if isinstance(value, dict) else {"text": value}
            content = lumia.Box.any({**said, "reply_to": asked}, meta=dict(content.meta))
    lumia.adapters.dispatch(NAME, src, content, account=account)


@lumia.event.consumer_re("msg.edit, dest=5.discord.*")
def edit_of(src: str, content: lumia.Box[Any]) -> None:
    """Hand an edit on to its chat's lane."""
    lumia.adapters.dispatch(NAME, src, content, account=accounts.default_name())


@lumia.event.consumer_re("msg.delete, dest=5.discord.*")
def delete_of(src: str, content: lumia.Box[Any]) -> None:
    """Hand a deletion on to its chat's lane."""
    lumia.adapters.dispatch(NAME, src, content, account=accounts.default_name())


@lumia.event.consumer("msg.media.discord", queue="media", retry=lumia.media.RETRY)
def fetch(content: lumia.Box[Any]) -> None:
    """Fetch a message's files before it goes on: their addresses are signed and expire."""
    lumia.media.receive(content, rest.locate)


@lumia.event.consumer("discord.send", retry=lumia.adapters.RETRY)
def send(content: lumia.Box[Any]) -> None:
    """Send a message, in as many parts as it needs."""
    call = content.into()
    wanted = delivery.letter(call)
    with lumia.adapters.delivering(content, policy=delivery.policy(call, wanted)) as out:
        delivery.send(out, wanted)


@lumia.event.consumer("discord.edit", retry=lumia.adapters.RETRY)
def edit(content: lumia.Box[Any]) -> None:
    """Edit a message of the bot's."""
    with lumia.adapters.delivering(content, policy="retry") as out:
        delivery.edit(out)


@lumia.event.consumer("discord.delete", retry=lumia.adapters.RETRY)
def delete(content: lumia.Box[Any]) -> None:
    """Delete a message of the bot's."""
    with lumia.adapters.delivering(content, policy="retry") as out:
        delivery.delete(out)


@lumia.adapters.check
def check(account: str) -> lumia.adapters.Checked:
    """Ask Discord who an account is and whether its intents are switched on."""
    return asking.check(account)


@lumia.checks.check("discord")
def settings() -> list[lumia.checks.Finding]:
    """Look at the accounts of config/discord.toml."""
    return asking.findings()
