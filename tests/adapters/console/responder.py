"""A small answerer for the console's tests: says back what it was told, unless told to be quiet or to break."""

from __future__ import annotations

import threading
from typing import Any

import lumia

hold = threading.Event()
hold.set()


@lumia.pipe.on("msg", priv=100)
def listen(content: lumia.Box[dict[str, Any]]) -> None:
    hold.wait(10)
    if "quiet" in content.into()["text"]:
        lumia.utils.stop("asked to be quiet")
    else:
        lumia.utils.next()


@lumia.pipe.on("msg", priv=10, retry=1)
def answer(content: lumia.Box[dict[str, Any]]) -> None:
    msg = content.into()
    if "break" in msg["text"]:
        raise RuntimeError("broken on purpose")
    chat = msg["chat"]
    to = lumia.payloads.destination(1, "console", chat["kind"], chat["id"])
    reply = {"text": f"you said: {msg['text']}", "reply_to": msg["message_id"]}
    lumia.event.start(id=to, content=lumia.Box.any(reply, meta={"account": msg["account"]}))
