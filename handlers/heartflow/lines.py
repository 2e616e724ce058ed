"""The lines of a chat, both sides: the context buffer of spec §12.4, kept in `lumia.store` under the chat's scope.

Lines are numbered from 1 without gaps. The newest `k` are shown word for word; what is older is shown by summaries
that `compression.py` writes in the background. A line goes only when a committed summary holds it, so nothing said is
lost between the two. A line is a JSON object as `Line`; `by` is `user` or `bot` and is written by this module only,
never taken from a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import lumia

from . import backlog, summaries
from .message import FILES, Message, cut
from .summaries import Summary

STORE = lumia.store.of("heartflow")
LINES, NEWEST, COUNTED = "lines", "newest", "counted"
SUMMARY, SUMMARISED = "summary", "summarised"
KEEP_SECONDS, SUMMARY_SECONDS = 14 * 86400.0, 90 * 86400.0
TAIL, TAIL_CHARS = 6, 240
"""Lines that perception looks at, and how much of each: kept once more, so that no more is read and recorded."""
EXCERPTED = 40
"""Lines that one excerpt stands for."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chat; `at` is in seconds since 1970, `n` its number in the chat (0: not kept yet).

    message_id: the platform's, None when unknown. reply_to: the message it quotes; of a line of the bot, the one it
    answers. c: nobody was asked to answer it (`compressed=True` of spec §12.3).
    """

    by: str
    id: str
    name: str
    text: str
    at: float
    n: int = 0
    message_id: str | None = None
    reply_to: str | None = None
    c: bool = False


def line_of(message: Message, at: float, limit: int, *, c: bool = False) -> Line:
    """Return what is kept of an incoming message: at most `limit` characters.

    Files are shown as `(image)`, unless the text has their place already; what else is no text, where there is no text.
    """
    said = message.text.strip()
    kinds = [kind for kind in sorted(message.kinds - {"text", "mention"}) if kind in FILES or not said]
    shown = [cut(said, limit), *(f"({kind})" for kind in kinds if f"[{kind}]" not in said)]
    text = " ".join(part for part in shown if part) or "(mentions you)"
    return Line(
        "user", message.sender_id, message.sender_name, text, at, message_id=message.message_id,
        reply_to=message.reply_to, c=c,
    )  # fmt: skip


def push(scope: str, line: Line, *, k: int, cap: int) -> Line:
    """Append a line to a chat and return it with its number; commits with the step.

    In the chat's own lane only: the number is one more than the last. k: how many lines are shown word for word.
    cap: how many may wait for a summary; when there are more, the step itself draws the older ones together by
    excerpt, so the chat stays bounded and no line is lost.
    """
    numbered, most = replace(line, n=int(STORE.get(COUNTED, 0, scope=scope)) + 1), max(cap, 3 * k)
    STORE.set(COUNTED, numbered.n, scope=scope, ttl=SUMMARY_SECONDS)
    behind = numbered.n - _summarised(scope)
    if behind > most:
        behind = numbered.n - _make_room(scope, k)
    if behind - k >= lumia.config.get("heartflow").summary_min_lines:
        backlog.note(scope)
    keep = min(max(3 * k, behind, 1), most)
    STORE.append(LINES, _packed(numbered), scope=scope, keep=keep, ttl=KEEP_SECONDS)
    short = replace(numbered, text=numbered.text[:TAIL_CHARS])
    STORE.append(NEWEST, _packed(short), scope=scope, keep=TAIL, ttl=KEEP_SECONDS)
    return numbered


def waiting(scope: str) -> tuple[Summary, list[Line]]:
    """Return a chat's summaries and the lines that are in none, oldest first.

    Lines that have expired wait no more: `to` of the summaries is then the number before the first line left.
    """
    known = summary(scope)
    known = replace(known, to=max(known.to, _summarised(scope)))
    entries = map(read, STORE.items(LINES, scope=scope))
    found = [line for line in entries if line is not None and line.n > known.to]
    return (replace(known, to=found[0].n - 1) if found else known), found


def _make_room(scope: str, k: int) -> int:
    """Draw the older half of the lines that wait together without a model; returns the last line in a summary now."""
    known, lines = waiting(scope)
    beyond = lines[: max(0, len(lines) - k)]
    for chunk in summaries.chunks(beyond[: (len(beyond) + 1) // 2], 1, EXCERPTED, len(beyond) * 10**6):
        known = summaries.with_paragraph(known, summaries.paragraph(known, chunk, summaries.excerpt(chunk)))
    write_summary(scope, summaries.bounded(known))
    return known.to


def _summarised(scope: str) -> int:
    return int(STORE.get(SUMMARISED, 0, scope=scope))


def recent(scope: str, last: int) -> list[Line]:
    """Return the last `last` lines of a chat, oldest first; entries of another shape are passed over."""
    if last <= 0:
        return []
    return [line for entry in STORE.items(LINES, scope=scope, last=last) if (line := read(entry))]


def newest(scope: str) -> list[Line]:
    """Return the beginnings of the newest `TAIL` lines of a chat, oldest first."""
    return [line for entry in STORE.items(NEWEST, scope=scope) if (line := read(entry))]


def upto(scope: str, last: int, line: Line) -> list[Line]:
    """Return the last `last` lines of a chat that end with `line`: what came in later is none of its business."""
    found = [one for one in recent(scope, last + TAIL) if one.n < line.n]
    return [*found, line][-last:]


def summary(scope: str) -> Summary:
    """Return the summaries of a chat; an empty one when there are none."""
    return summaries.read_summary(STORE.get(SUMMARY, scope=scope))


def write_summary(scope: str, found: Summary) -> None:
    """Keep the summaries of a chat; from then on the lines up to `found.to` may go."""
    STORE.set(SUMMARY, found.as_json(), scope=scope, ttl=SUMMARY_SECONDS)
    STORE.set(SUMMARISED, found.to, scope=scope, ttl=SUMMARY_SECONDS)


def quoted(reply_to: str | None, lines: Sequence[Line]) -> Line | None:
    """Return the line that a message quotes, if it is among `lines`; `bot:<id>` is the bot's answer to message `id`."""
    if reply_to is None:
        return None
    for line in reversed(lines):
        if line.message_id == reply_to or (line.by == "bot" and reply_to == f"bot:{line.reply_to}"):
            return line
    return None


def read(entry: Any) -> Line | None:
    """Return the line that an entry of the store holds, None when it is none."""
    if not isinstance(entry, Mapping) or entry.get("by") not in ("user", "bot"):
        return None
    try:
        at, n = float(entry.get("at") or 0.0), int(entry.get("n") or 0)
    except (TypeError, ValueError):
        return None
    text, name = str(entry.get("text", "")), str(entry.get("name", ""))
    return Line(
        str(entry["by"]), str(entry.get("id", "")), name, text, at, n, _optional(entry.get("message_id")),
        _optional(entry.get("reply_to")), bool(entry.get("c")),
    )  # fmt: skip


def _packed(line: Line) -> dict[str, Any]:
    return {name: value for name, value in asdict(line).items() if value not in (None, False, "")}


def _optional(value: Any) -> str | None:
    return None if value is None else str(value)
