"""The CQ string form of a message, `[CQ:type,key=value]` between plain text, and back (OneBot v11, message/string).

A segment is `{"type": str, "data": {str: value}}` as in the array form; nothing in the array form is ever escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_CODE = re.compile(r"\[CQ:([^,\[\]]+)((?:,[^\[\]]*)?)\]")
Segment = dict[str, Any]


def escape(text: str, *, value: bool = False) -> str:
    """Return plain text, or the `value` of a parameter, as it stands in the string form."""
    escaped = text.replace("&", "&amp;").replace("[", "&#91;").replace("]", "&#93;")
    return escaped.replace(",", "&#44;") if value else escaped


def unescape(text: str, *, value: bool = False) -> str:
    """Undo `escape`; `&amp;` comes last, so that `&amp;#91;` is the text `&#91;`."""
    text = text.replace("&#44;", ",") if value else text
    return text.replace("&#91;", "[").replace("&#93;", "]").replace("&amp;", "&")


def decode(text: str) -> list[Segment]:
    """Return the segments of a string; a bracket that begins no code is plain text."""
    return list(_pieces(text))


def _pieces(text: str) -> Iterator[Segment]:
    at = 0
    for code in _CODE.finditer(text):
        if code.start() > at:
            yield _text(text[at : code.start()])
        yield {"type": code[1], "data": dict(_parameters(code[2]))}
        at = code.end()
    if at < len(text):
        yield _text(text[at:])


def _text(escaped: str) -> Segment:
    return {"type": "text", "data": {"text": unescape(escaped)}}


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(",")[1:]:
        key, equals, value = part.partition("=")
        if equals:
            yield key, unescape(value, value=True)


def encode(segments: Iterable[Mapping[str, Any]]) -> str:
    """Return the string form of segments; values that are None are left out, booleans become 1 and 0."""
    return "".join(_encoded(str(segment["type"]), segment.get("data") or {}) for segment in segments)


def _encoded(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "text":
        return escape(str(data.get("text", "")))
    parts = [kind, *(f"{key}={escape(_shown(value), value=True)}" for key, value in data.items() if value is not None)]
    return f"[CQ:{','.join(parts)}]"


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
