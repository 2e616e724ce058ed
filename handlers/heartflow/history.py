"""The recent lines of a chat, both sides, kept in `lumia.store` under the chat's scope.

Lines are appended in the step that answers, so they commit with the reply or not at all: a failed or repeated attempt
leaves no half turn behind. A line is a JSON object `{by, id, name, text, at}`; `by` is `user` or `bot` and is written
by this module only, never taken from a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import lumia

from .message import Message, cut

KEY = "history"
KEEP_SECONDS = 14 * 86400.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chat; `at` is in seconds since the epoch."""

    by: str
    id: str
    name: str
    text: str
    at: float


def line_of(message: Message, at: float, limit: int) -> Line:
    """Return what is kept of an incoming message: at most `limit` characters, media as `(image)`."""
    kinds = sorted(message.kinds - {"text", "mention"})
    shown = [cut(message.text.strip(), limit), *(f"({kind})" for kind in kinds)]
    text = " ".join(part for part in shown if part)
    return Line("user", message.sender_id, message.sender_name, text or "(mentions you)", at)


def recent(scope: str, last: int) -> list[Line]:
    """Return the last `last` lines of a chat, oldest first; entries of another shape are passed over."""
    if last <= 0:
        return []
    return [line for entry in lumia.store.items(KEY, scope=scope, last=last) if (line := _line(entry))]


def remember(scope: str, *lines: Line, keep: int) -> None:
    """Append `lines` to a chat's history, which holds at most `keep` of them."""
    for line in lines[-keep:] if keep > 0 else ():
        lumia.store.append(KEY, asdict(line), scope=scope, keep=keep, ttl=KEEP_SECONDS)


def _line(entry: Any) -> Line | None:
    if not isinstance(entry, Mapping) or entry.get("by") not in ("user", "bot"):
        return None
    try:
        at = float(entry.get("at") or 0.0)
    except (TypeError, ValueError):
        return None
    return Line(str(entry["by"]), str(entry.get("id", "")), str(entry.get("name", "")), str(entry.get("text", "")), at)
