"""QQ by OneBot v11 (DESIGN §10, pid 3): NapCat, Lagrange and others, over WebSocket both ways and HTTP."""

from __future__ import annotations

import logging
from typing import Any

import lumia

from . import accounts, actions, checking, files, forward, outgoing, sending, web
from .actions import STEP_TIME
from .incoming import NAME, PLATFORM

__all__ = ["actions", "checking", "delete", "deliver", "files", "find_active", "forward", "on_load", "send", "web"]

VERSION = lumia.__version__
_log = logging.getLogger("lumia.onebot")


def on_load() -> None:
    """Register the adapter (spec §6.2) and look at the configured accounts."""
    lumia.system.adapters.reg(NAME, VERSION, platform=PLATFORM)
    for fault in accounts.faults():
        _log.error("%s; %s", accounts.where(fault), fault.fix)


@lumia.event.consumer("bus.adapters.qq.find_active")
def find_active(content: lumia.Box[Any]) -> None:
    """Answer the framework's question who is alive (spec §6.2)."""
    lumia.system.adapters.heartbeat(NAME, VERSION)


@lumia.event.consumer_re("msg.send, dest=3.qq.*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Hand a message on to where its account's connection is."""
    _hand_on(src, content)


@lumia.event.consumer_re("msg.delete, dest=3.qq.*")
def take_back(src: str, content: lumia.Box[Any]) -> None:
    """Hand a recall on to where its account's connection is."""
    _hand_on(src, content)


def _hand_on(src: str, content: lumia.Box[Any]) -> None:
    account = accounts.required(str(content.meta.get("account") or accounts.default()), src)
    lumia.adapters.dispatch(NAME, src, content, account=account.name, queue=account.queue)


@lumia.event.consumer("onebot.send", retry=lumia.adapters.RETRY, timeout=STEP_TIME)
def send(content: lumia.Box[Any]) -> None:
    """Send a message: as many as its length and its files need, each once."""
    account = accounts.required(content.into()["account"], "onebot.send")
    with lumia.adapters.delivering(content, policy=account.on_unknown) as out:
        parts = [files.embedded(segment, n) for n, segment in enumerate(out.segments)]
        found = outgoing.messages(parts, out.reply_to, account.split_at, lumia.adapters.parts)
        for number, message in enumerate(found):
            out.part(number, sending.send, account, out.kind, out.chat, message)


@lumia.event.consumer("onebot.delete", retry=lumia.adapters.RETRY, timeout=STEP_TIME)
def delete(content: lumia.Box[Any]) -> None:
    """Take a message of ours back (`delete_msg`)."""
    account = accounts.required(content.into()["account"], "onebot.delete")
    with lumia.adapters.delivering(content, policy="retry") as out:
        out.part(0, sending.delete, account, str(out.message_id))
