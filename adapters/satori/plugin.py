"""Satori v1: whatever platforms a Satori server is logged in at, through one connection (DESIGN §10, pid 7)."""

from __future__ import annotations

import logging
from typing import Any

import lumia

from . import accounts, api, checking, connections, delivery, files, web
from .accounts import NAME

__all__ = ["web"]

VERSION = lumia.__version__
_log = logging.getLogger("lumia.satori")


def on_load() -> None:
    """Register the adapter (spec §6.2) and tell what is wrong with its settings."""
    lumia.system.adapters.reg(NAME, VERSION, platform=NAME)
    for fault in accounts.faults():
        _log.error("%s; %s", accounts.where(fault), fault.fix)


def on_unload() -> None:
    """Close this process's connections to the HTTP APIs."""
    api.shared.close()


@lumia.event.consumer("bus.adapters.satori.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(NAME, VERSION)


@lumia.web.resident
async def connect() -> None:
    """Keep the configured servers connected."""
    await connections.serve()


@lumia.event.consumer_re("msg.send, dest=7.satori.*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Hand a message on to its chat's lane."""
    lumia.adapters.dispatch(NAME, src, content, account=accounts.default())


@lumia.event.consumer_re("msg.edit, dest=7.satori.*")
def edit_of(src: str, content: lumia.Box[Any]) -> None:
    """Hand an edit on to its chat's lane."""
    lumia.adapters.dispatch(NAME, src, content, account=accounts.default())


@lumia.event.consumer_re("msg.delete, dest=7.satori.*")
def delete_of(src: str, content: lumia.Box[Any]) -> None:
    """Hand a deletion on to its chat's lane."""
    lumia.adapters.dispatch(NAME, src, content, account=accounts.default())


@lumia.event.consumer("msg.media.satori", queue="media", retry=lumia.media.RETRY)
def fetch(content: lumia.Box[Any]) -> None:
    """Fetch a message's files before it goes on."""
    lumia.media.receive(content, files.locate, same=files.never_the_same)


@lumia.event.consumer("satori.send", retry=lumia.adapters.RETRY)
def send(content: lumia.Box[Any]) -> None:
    """Send a message, in as many parts as it needs."""
    with lumia.adapters.delivering(content, policy=delivery.policy(content.into()["account"])) as out:
        delivery.send(out)


@lumia.event.consumer("satori.edit", retry=lumia.adapters.RETRY)
def edit(content: lumia.Box[Any]) -> None:
    """Edit a message of the bot's; the same edit twice is one."""
    with lumia.adapters.delivering(content, policy="retry") as out:
        delivery.edit(out)


@lumia.event.consumer("satori.delete", retry=lumia.adapters.RETRY)
def delete(content: lumia.Box[Any]) -> None:
    """Take a message of the bot's back; twice is once."""
    with lumia.adapters.delivering(content, policy="retry") as out:
        delivery.delete(out)


@lumia.adapters.check
def check(account: str) -> lumia.adapters.Checked:
    """Ask the Satori server who an account is."""
    return checking.check(account)


@lumia.checks.check("satori")
def settings() -> list[lumia.checks.Finding]:
    """Look at the accounts of config/satori.toml."""
    return checking.findings()
