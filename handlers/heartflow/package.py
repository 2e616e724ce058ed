"""The ContextPackage of spec §12.4: everything layer 3 gets to see of a message's context, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from .lines import Line, read
from .message import Message
from .remembering import Recalled

MOST_CHARS = 100_000
"""Characters of earlier lines in a package: a Box holds a mebibyte, and a character may take four bytes and more."""


class ContextPackage(TypedDict):
    """What layer 2 hands to layer 3.

    recent_messages: the newest lines, oldest first, the message itself last. context_summary: what stands for the lines
    before them. memory_rag: `{line, id, score, why}`, best first. tool_results: `{server, tool, input, result}`.
    """

    group_id: str
    recent_messages: list[dict[str, Any]]
    context_summary: str
    memory_rag: list[dict[str, Any]]
    hint_injections: list[str]
    tool_results: list[dict[str, Any]]
    sender_profile: dict[str, Any]
    force_engage: NotRequired[bool]


def pack(
    message: Message, lines: Sequence[Line], summary: str, recalled: Recalled, results: Sequence[Mapping[str, Any]],
    *, force_engage: bool,
) -> ContextPackage:  # fmt: skip
    """Return the package for `message`; lines: the newest of the chat, oldest first, as many as a Box can carry."""
    return {
        "group_id": message.chat_id,
        "recent_messages": [shown(line) for line in _light(lines)],
        "context_summary": summary,
        "memory_rag": list(recalled.rows),
        "hint_injections": list(recalled.hints),
        "tool_results": [dict(one) for one in results],
        "sender_profile": dict(recalled.profile),
        "force_engage": force_engage,
    }


def _light(lines: Sequence[Line]) -> list[Line]:
    """Return the newest lines that are not too much together; the last one always."""
    left, found = MOST_CHARS, list(lines[-1:])
    for line in reversed(lines[:-1]):
        left -= len(line.text)
        if left < 0:
            break
        found.insert(0, line)
    return found


def shown(line: Line) -> dict[str, Any]:
    """Return a line as the package holds it."""
    shown = {"by": line.by, "id": line.id, "name": line.name, "text": line.text, "at": line.at, "n": line.n}
    quotes = {"message_id": line.message_id, "reply_to": line.reply_to}
    return shown | {name: value for name, value in quotes.items() if value is not None}


def lines_in(package: Mapping[str, Any]) -> list[Line]:
    """Return the lines of a package."""
    found = package.get("recent_messages") or ()
    return [line for one in found if (line := read(one)) is not None]
