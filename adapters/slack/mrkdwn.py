"""Slack's own text form, mrkdwn, as segments and back (docs.slack.dev, "Formatting message text").

`&`, `<` and `>` arrive as entities, and whatever stands between angle brackets names something: a person, a channel,
a group, everybody, a date or a link. `decode` and `encode` are inverse to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Segment = dict[str, Any]

_NAMED = re.compile(r"<([^<>]+)>")
_ENTITY = re.compile(r"&(amp|lt|gt);")
_PLAIN = {"amp": "&", "lt": "<", "gt": ">"}
_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_EVERYBODY = frozenset({"here", "channel", "everyone", "group"})
_SUBTEAM = "subteam^"


def escape(text: str) -> str:
    """Return `text` with the three characters that mean something to Slack as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """Return what `escape` made `text` of."""
    return _ENTITY.sub(lambda found: _PLAIN[found[1]], text)


def decode(text: str) -> list[Segment]:
    """Return the segments of a message's text; never fails, what can't be read stays text.

    mention {id, label?} · mention_all {range, label?} · slack.channel {id, label?} · slack.usergroup {id, label?} ·
    slack.link {url, label?} · slack.special {value, label?} (dates and whatever comes) · text {text}
    """
    segments: list[Segment] = []
    at = 0
    for found in _NAMED.finditer(text):
        named = _decoded(found[1])
        if named is not None:
            _add_text(segments, text[at : found.start()])
            segments.append(named)
            at = found.end()
    _add_text(segments, text[at:])
    return segments


def _add_text(segments: list[Segment], text: str) -> None:
    if text:
        segments.append({"type": "text", "data": {"text": unescape(text)}})


def _decoded(body: str) -> Segment | None:
    head, bar, label = body.partition("|")
    kind, data = _meaning(head)
    if not data:
        return None
    return {"type": kind, "data": {**data, "label": unescape(label)} if bar else data}


def _meaning(head: str) -> tuple[str, dict[str, str]]:
    sigil, rest = head[:1], head[1:]
    if sigil == "@":
        return "mention", {"id": rest} if _ID.fullmatch(rest) else {}
    if sigil == "#":
        return "slack.channel", {"id": rest} if _ID.fullmatch(rest) else {}
    if sigil != "!":
        return "slack.link", {"url": unescape(head)} if head else {}
    if rest in _EVERYBODY:
        return "mention_all", {"range": rest}
    if rest.startswith(_SUBTEAM) and _ID.fullmatch(rest.removeprefix(_SUBTEAM)):
        return "slack.usergroup", {"id": rest.removeprefix(_SUBTEAM)}
    return "slack.special", {"value": unescape(rest)} if rest else {}


def encode(segments: Iterable[Mapping[str, Any]]) -> str:
    """Return the text that `decode` made segments of."""
    return "".join(_encoded(segment, labels=True) for segment in segments)


def name_of(segment: Mapping[str, Any]) -> str:
    """Return a segment as it is sent: people, channels and groups by their id alone, since Slack shows their names.

    A label after a person's id would be shown as typed. "" for a segment that has no place in a text.
    """
    return _encoded(segment, labels=False)


def _encoded(segment: Mapping[str, Any], *, labels: bool) -> str:
    kind, data = segment["type"], segment["data"]
    if kind == "text":
        return escape(str(data.get("text", "")))
    if kind == "emoji":
        return f":{escape(str(data.get('name') or data.get('id', '')))}:"
    head = _head(kind, data)
    if not head:
        return ""
    shown = labels or kind in ("slack.link", "slack.special")
    return f"<{head}|{escape(str(data['label']))}>" if shown and data.get("label") is not None else f"<{head}>"


def _head(kind: str, data: Mapping[str, Any]) -> str:
    id = str(data.get("id", ""))
    if kind == "mention_all":
        reach = data.get("range", "channel")
        return f"!{reach if reach in _EVERYBODY else 'channel'}"
    if kind == "slack.link":
        return escape(str(data.get("url", ""))).replace("|", "%7C")
    if kind == "slack.special":
        return "!" + escape(str(data.get("value", ""))).replace("|", "%7C")
    sigil = {"mention": "@", "slack.channel": "#", "slack.usergroup": f"!{_SUBTEAM}"}.get(kind, "")
    return sigil + id if sigil and _ID.fullmatch(id) else ""


def text_of(segments: Iterable[Mapping[str, Any]]) -> str:
    """Return what a reader sees: names instead of ids, links with their address."""
    return "".join(_shown(segment["type"], segment["data"]) for segment in segments)


def _shown(kind: str, data: Mapping[str, Any]) -> str:
    label = str(data.get("name") or data.get("label") or "")
    if kind == "text":
        return str(data["text"])
    if kind == "mention":
        return f"@{label or data['id']}"
    if kind == "mention_all":
        return f"@{data['range']}"
    if kind == "slack.channel":
        return f"#{label or data['id']}"
    if kind == "slack.usergroup":
        return f"@{label.removeprefix('@') or data['id']}"
    if kind == "slack.link":
        return _link(str(data["url"]), label)
    return label if kind == "slack.special" else ""


def _link(url: str, label: str) -> str:
    same = not label or label in (url, re.sub(r"^(https?://|mailto:|tel:)", "", url))
    return (label or url) if same else f"{label} ({url})"
