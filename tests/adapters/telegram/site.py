"""A gateway with a bot in memory on one side, a Bot API server on the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import lumia
from lumia import adapters
from lumia.adapters import sends
from lumia.paths import base
from tests.peers.telegram import TelegramServer
from tests.peers.telegram_chats import ANN
from tests.support.gateway import Served, served

TELEGRAM = base() / "adapters" / "telegram"


@lumia.pipe.on("msg", priv=10)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    msg = content.into()
    if "quiet" not in msg["text"]:
        reply: dict[str, Any] = {"text": f"**you said** {msg['text']}", "reply_to": msg["message_id"]}
        if msg["text"].startswith("long"):
            reply["text"] = "word " * 1500
        if msg["media"]:
            blob = msg["media"][0].get("blob")
            shown = {"type": "image", "data": {"blob": blob}}
            reply = {"segments": [{"type": "text", "data": {"text": "yours"}}, *([shown] if blob else [])]}
        lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any(reply, meta=content.meta))
    lumia.utils.next()


@contextmanager
def site(telegram: TelegramServer, *handlers: Any, **account: Any) -> Iterator[Served]:
    table = {"token": telegram.token, "api_url": telegram.url, "owner": str(ANN["id"]), "poll_seconds": 1, **account}
    config = {"telegram": {"accounts": {"main": table}}}
    with served(TELEGRAM, *(handlers or (answer,)), config=config) as running_site:
        yield running_site


def state(name: str = "main") -> adapters.AccountInfo:
    unseen = adapters.AccountInfo("telegram", name, "telegram", "unseen")
    return next((one for one in adapters.accounts() if (one.adapter, one.account) == ("telegram", name)), unseen)


def counts() -> Mapping[str, int]:
    return sends.counts("telegram", "main")
