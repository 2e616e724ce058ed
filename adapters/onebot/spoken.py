"""A message of QQ as it reads: what a card, a sticker or a forwarded bundle says, as far as the peer tells it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lumia.payloads import clean_text, text_of

from .segments import PREFIX, Segment, read

_MOST = 500
"""Characters of one segment."""
_NODES = 20
"""Messages of a forwarded bundle that are read, where the peer sent them along."""


def spoken(segments: Iterable[Segment]) -> str:
    """Return the text of segments; those that tell nothing of themselves are named by their kind, as [image]."""
    return clean_text("".join(_read(one) for one in segments))


def _read(segment: Segment) -> str:
    kind, data = str(segment["type"]), segment["data"]
    reader = _READERS.get(kind.removeprefix(PREFIX))
    said = reader(data)[:_MOST].strip() if reader is not None else ""
    if not said:
        return str(text_of({"segments": [segment]}))
    plain = said.startswith("[") or kind in ("mention_all", f"{PREFIX}markdown")
    return said if plain else f"[{said}]"


def _text(data: Mapping[str, Any], *names: str) -> str:
    found = (data.get(name) for name in names)
    return " ".join(text.strip() for text in found if isinstance(text, str) and text.strip())


def _summary(data: Mapping[str, Any]) -> str:
    return _text(data, "summary")


def _face(data: Mapping[str, Any]) -> str:
    raw = data.get("raw")
    return _text(raw, "faceText").removeprefix("/") if isinstance(raw, Mapping) else ""


def _card(data: Mapping[str, Any]) -> str:
    """Return what a mini app's card is about: its prompt, and where it leads."""
    try:
        card = json.loads(str(data.get("data")))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(card, dict):
        return ""
    meta = card.get("meta")
    inner = [one for one in meta.values() if isinstance(one, dict)] if isinstance(meta, dict) else []
    said = _text(card, "prompt", "desc") or " ".join(_text(one, "title", "desc") for one in inner)
    link = next((found for one in inner if (found := _text(one, "jumpUrl") or _text(one, "qqdocurl"))), "")
    return f"{said} {link}".strip()


def _bundle(data: Mapping[str, Any]) -> str:
    """Return what was forwarded, where the peer has unfolded it: who said what, a line each."""
    nodes = data.get("content")
    lines = [_node(one) for one in nodes[:_NODES] if isinstance(one, Mapping)] if isinstance(nodes, list) else []
    return "forwarded:\n" + "\n".join(lines) if any(lines) else ""


def _node(node: Mapping[str, Any]) -> str:
    held = node.get("data")
    inner: Mapping[str, Any] = held if isinstance(held, Mapping) else node
    sender = inner.get("sender")
    name = _text(sender, "card") or _text(sender, "nickname") if isinstance(sender, Mapping) else ""
    given = inner.get("message", inner.get("content"))
    parts = [one for one in read(given)[0] if one["type"] != f"{PREFIX}forward"]
    return f"{name or _text(inner, 'nickname') or '?'}: {spoken(parts)}"


_READERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "mention_all": lambda data: "@all",
    "emoji": _face,
    "image": _summary,
    "mface": _summary,
    "json": _card,
    "forward": _bundle,
    "markdown": lambda data: _text(data, "content"),
    "share": lambda data: _text(data, "title", "content", "url"),
    "location": lambda data: _text(data, "title", "content") or _text(data, "lat", "lon"),
    "dice": lambda data: f"dice {data['result']}" if data.get("result") else "",
    "rps": lambda data: f"rps {data['result']}" if data.get("result") else "",
}
