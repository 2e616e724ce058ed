"""Messages whose files are fetched first; the chat's id is the scope of what is noted."""

from __future__ import annotations

from typing import Any

import lumia


@lumia.event.consumer("msg.media.probe", retry=lumia.media.RETRY)
def fetch_media(content: lumia.Box[Any]) -> None:
    lumia.media.receive(content, lambda item, msg: lumia.media.Place(item["url"], allowed_hosts=("127.0.0.1",)))


@lumia.pipe.on("msg", priv=1)
def hears(content: lumia.Box[Any]) -> None:
    msg = content.into()
    files = [item.get("blob", {}).get("digest") or item["error"] for item in msg["media"]]
    lumia.store.append("seen", [msg["message_id"], files, content.meta["account"]], scope=msg["chat"]["id"])
