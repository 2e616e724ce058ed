"""The console: a chat page on the gateway, `lumia chat` and `lumia send` (DESIGN §10, pid 1).

Everything said is kept in `lumia.store` by handlers, so it survives any process and every open page shows the same.
"""

from __future__ import annotations

from typing import Any

import lumia

from . import chat, commands, web

__all__ = ["commands", "deliver", "find_active", "on_load", "record", "web"]

VERSION = lumia.__version__


def on_load() -> None:
    """Register the adapter (spec §6.2)."""
    lumia.system.adapters.reg(chat.NAME, VERSION, platform=chat.PLATFORM, account=chat.ACCOUNT)


@lumia.event.consumer("bus.adapters.console.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(chat.NAME, VERSION)


@lumia.event.consumer("msg.console")
def record(content: lumia.Box[Any]) -> None:
    """Keep an accepted message in the chat's history."""
    chat.keep_question(content.into())


@lumia.event.consumer_re("msg.send, dest=1.*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Keep what the bot says in the chat's history; pages and terminals read it there."""
    to = lumia.payloads.parse_destination(src)
    step = lumia.context.required("console.deliver")
    chat.keep_reply(chat.Chat(to.kind, to.id), content.into(), step.claim.root_id)
