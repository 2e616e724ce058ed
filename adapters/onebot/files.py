"""Files of messages: those that come in are fetched at once, those that go out travel as base64."""

from __future__ import annotations

import base64
import re
from typing import Any

import lumia

from . import accounts, segments

_BY_CONTENT = re.compile(r"\{?[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}\}?(\.[A-Za-z0-9]{1,8})?")


def embedded(segment: dict[str, Any], n: int) -> dict[str, Any]:
    """Return a segment with its file as a blob: the OneBot side is sent to no address that a chat came up with."""
    data = segment.get("data") or {}
    if segment.get("type") not in segments.KINDS or data.get("blob") or not data.get("url"):
        return segment
    file = lumia.media.outgoing(segment, n)
    rest = {key: value for key, value in data.items() if key != "url"}
    return {**segment, "data": {**rest, "blob": dict(file.blob), "name": file.name}}


@lumia.event.consumer("msg.media.qq", queue="media", retry=lumia.media.RETRY)
def receive(content: lumia.Box[Any]) -> None:
    """Fetch the files of a message before it goes on; QQ's links are good for a short time only."""
    lumia.media.receive(content, _place, same=_same)


def _same(item: dict[str, Any]) -> str:
    """Return by what a file is known: images by the hash in their name; other names are their sender's choice."""
    ref = str(item.get("ref") or "")
    return f"image {ref}" if item.get("kind") == "image" and _BY_CONTENT.fullmatch(ref) else ""


def _place(item: dict[str, Any], msg: dict[str, Any]) -> lumia.media.Place | bytes:
    account = accounts.find(msg["account"])
    hosts = account.media_hosts if account is not None else ()
    ref = str(item.get("ref") or "")
    link = item.get("url") or (ref if ref.startswith(("http://", "https://")) else "")
    if link:
        return lumia.media.Place(str(link), allowed_hosts=hosts)
    if ref.startswith("base64://"):
        return base64.b64decode(ref.removeprefix("base64://"))
    raise lumia.errors.MediaError("the OneBot side gave no address of this file, only a name on its own machine")
