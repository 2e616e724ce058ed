"""Telegram: bots of the Bot API, by long polling or webhook (DESIGN §10, pid 4; docs/telegram.md)."""

from __future__ import annotations

from typing import Any

import lumia
from lumia import adapters

from . import accounts, api, checking, delivery, fetching, migration, running, web
from .accounts import NAME

__all__ = [
    "answer_callback", "checking", "deliver", "dispatch_delete", "dispatch_edit", "dispatch_send", "edit_message",
    "fetch_files", "find_active", "migrate", "on_load", "on_unload", "running", "take_back", "web",
]  # fmt: skip

VERSION = lumia.__version__


def on_load() -> None:
    """Register the adapter (spec §6.2) and say what is wrong with the configured bots."""
    lumia.system.adapters.reg(NAME, VERSION, platform=NAME)
    checking.tell()


def on_unload() -> None:
    """Close the connections to Telegram."""
    api.close()


@lumia.event.consumer("bus.adapters.telegram.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(NAME, VERSION)


@lumia.event.consumer_re("msg.send, dest=4.telegram.*")
def dispatch_send(src: str, content: lumia.Box[Any]) -> None:
    """Hand a message on to its chat's own lane."""
    adapters.dispatch(NAME, src, content, account=accounts.only())


@lumia.event.consumer_re("msg.edit, dest=4.telegram.*")
def dispatch_edit(src: str, content: lumia.Box[Any]) -> None:
    """Hand an edit on to its chat's own lane."""
    adapters.dispatch(NAME, src, content, account=accounts.only())


@lumia.event.consumer_re("msg.delete, dest=4.telegram.*")
def dispatch_delete(src: str, content: lumia.Box[Any]) -> None:
    """Hand a deletion on to its chat's own lane."""
    adapters.dispatch(NAME, src, content, account=accounts.only())


@lumia.event.consumer("telegram.send", retry=adapters.RETRY)
def deliver(content: lumia.Box[Any]) -> None:
    """Send one message."""
    with adapters.delivering(content, policy=_policy(content)) as out:
        delivery.send(out)


@lumia.event.consumer("telegram.edit", retry=adapters.RETRY)
def edit_message(content: lumia.Box[Any]) -> None:
    """Give one message another text; the same edit twice is one."""
    with adapters.delivering(content, policy="retry") as out:
        delivery.edit(out)


@lumia.event.consumer("telegram.delete", retry=adapters.RETRY)
def take_back(content: lumia.Box[Any]) -> None:
    """Take one message back; twice is once."""
    with adapters.delivering(content, policy="retry") as out:
        delivery.delete(out)


@lumia.event.consumer("telegram.callback_query", retry=lumia.Retry(attempts=3, backoff=1.0))
def answer_callback(content: lumia.Box[Any]) -> None:
    """Answer a pressed button at once, else it shows a clock; what it means is for other consumers."""
    value = content.into()
    query_id = str(value["callback_query"]["id"])
    lumia.effect("answer", delivery.answered, value["account"], query_id, kind="http")


@lumia.event.consumer("telegram.service")
def migrate(content: lumia.Box[Any]) -> None:
    """Keep the new id of a group that became a supergroup."""
    value = content.into()
    if value["service"] in ("migrate_to_chat_id", "migrate_from_chat_id"):
        migration.told(value["account"], value["message"])


@lumia.event.consumer("msg.media.telegram", queue="media", retry=lumia.media.RETRY)
def fetch_files(content: lumia.Box[Any]) -> None:
    """Fetch the files of a message before it goes on."""
    lumia.media.receive(content, fetching.locate)


def _policy(content: lumia.Box[Any]) -> str:
    account = accounts.find(str(content.meta.get("account", "")))
    return account.on_unknown if account is not None else "hold"
