"""Bursts and interruptions: what somebody adds while the bot waits or thinks is part of the same message.

Lines of the same person that wait in the chat's lane are taken into the turn that is under way; their own turns then
end as `joined`. A message whose files are fetched first waits as a run of another kind, whose child has the turn: what
was taken up is marked by the message's id. It commits with the step that takes them, so a line is joined or has a turn
of its own, never both. A step that is tried again may find more of them: it asks its models anew then
(`asking.Asking.seen`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lumia

from . import lines
from .lines import Line
from .message import Message, read

STORE = lumia.store.of("heartflow")
_SECONDS = 7 * 86400.0
MOST = 10
"""Lines that one look takes."""


def join(message: Message, config: Any, admits: Callable[[Message], bool]) -> list[tuple[Line, Message]]:
    """Take what the sender of `message` has added since into the chat's lines and return it.

    Nothing by setting, and nothing on platforms where whoever writes waits for an answer to each line.

    admits: the rules of L0, which count it; a line they drop is left to its own turn, and so is what follows it.
    """
    if config.while_thinking != "join" or message.local:
        return []
    found: list[tuple[Line, Message]] = []
    for run_id, payload in lumia.recorded("joining", "what follows", _following, message):
        other = read(payload)
        if not admits(other):
            break
        line = lines.line_of(other, lumia.system.now(), config.max_text_chars)
        found.append((lines.push(message.scope, line, k=config.context_lines, cap=config.context_cap), other))
        STORE.set(_key(other, run_id), message.message_id or "", scope=message.scope, ttl=_SECONDS)
    return found


def whole(line: Line, added: list[tuple[Line, Message]]) -> Line:
    """Return a message's line and what was added to it as one line."""
    return replace(line, text="\n".join([line.text, *(one.text for one, _ in added)]))


def joined_to(message: Message) -> str | None:
    """Return the message in whose turn the running run's was taken up, None when it has a turn of its own."""
    found = STORE.get(_key(message, lumia.context.origin()[0]), scope=message.scope)
    return None if found is None else str(found)


def over(message: Message) -> None:
    """Forget the mark of the running run's message, whose turn ends here."""
    STORE.delete(_key(message, lumia.context.origin()[0]), scope=message.scope)


def _key(message: Message, run_id: str) -> str:
    return f"joined:{message.message_id or run_id}"


def _following(message: Message) -> list[list[Any]]:
    """Return [run, payload] of what the same person says next in the same place, in order.

    It ends at anything of theirs that isn't words, and at a command of anybody: what comes after it is another matter.
    """
    found: list[list[Any]] = []
    for waiting in lumia.lanes.waiting(first=2 * MOST):
        if not waiting.is_message:
            continue
        try:
            other = read(waiting.content)
        except lumia.errors.PayloadError:
            continue
        if STORE.get(_key(other, waiting.run_id), scope=message.scope) is not None:
            continue
        if _is_command(waiting.content):
            break
        if (other.scope, other.sender_id) != (message.scope, message.sender_id):
            continue
        if other.thread != message.thread or "text" not in other.kinds or len(found) == MOST:
            break
        found.append([waiting.run_id, waiting.content])
    return found


def _is_command(payload: Any) -> bool:
    return any(service.claims(payload) for service in lumia.services.all("commands").values())
