"""A small answerer for the console's tests: says back what it was told, unless told to be quiet or to break."""

from __future__ import annotations

import threading
from typing import Any

import lumia

GIF = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)
"""A picture of one dot."""
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
    sent = "".join(f" [{item['kind']} {item['name']}, {item['size']} bytes]" for item in msg["media"])
    reply: dict[str, Any] = {"text": f"you said: {msg['text']}{sent}", "reply_to": msg["message_id"]}
    if "picture" in msg["text"]:
        ref = lumia.blobs.put(GIF, "image/gif").as_dict()
        menu = lumia.blobs.put(b"%PDF-1.7", "application/pdf").as_dict()
        reply["segments"] = [
            {"type": "text", "data": {"text": reply.pop("text")}},
            {"type": "image", "data": {"blob": ref, "name": "dot.gif"}},
            {"type": "file", "data": {"blob": menu, "name": "menu.pdf"}},
            {"type": "image", "data": {"url": "https://127.0.0.1/cat.png"}},
        ]
    lumia.event.start(id=to, content=lumia.Box.any(reply, meta={"account": msg["account"]}))
