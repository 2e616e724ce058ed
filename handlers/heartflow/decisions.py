"""Why the bot spoke or kept silent, for each of a chat's newest messages: what `/why` and the lab read.

A layer notes its decision in its step, so it commits with what it decided, or not at all. The chat itself hears nothing
of it; the newest `KEEP` decisions are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import lumia

from .message import Message

STORE = lumia.store.of("heartflow")
DECISIONS, SENT = "decisions", "sent"
KEEP = 30
KEEP_SECONDS = 14 * 86400.0
TEXT_LENGTH = 80
_REASON_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Decision:
    """What one layer decided about one message. engaged: it was for going on, False: for silence; at: seconds since
    1970; text: the first characters of the message."""

    run_id: str
    message_id: str
    sender_id: str
    sender_name: str
    text: str
    at: float
    layer: str
    engaged: bool
    reason: str

    @property
    def word(self) -> str:
        """The stable word the reason begins with, as `cooldown` or `score`."""
        return stable_word(self.reason)


def note(message: Message, layer: str, engaged: bool, reason: str) -> None:
    """Note in a step what `layer` (L0 to L3, polish) decided about `message`, and why.

    What the filter drops again and again of one sender for one reason is noted once in a row: a flood pushes nobody
    else's decisions out.
    """
    decision = Decision(
        lumia.context.origin()[0], message.message_id or "", message.sender_id, message.sender_name,
        " ".join(message.text.split())[:TEXT_LENGTH], round(lumia.system.now(), 3), layer, engaged,
        reason[:_REASON_LENGTH],
    )  # fmt: skip
    if layer == "L0" and not engaged and _repeats(of(message.scope, 1), decision):
        return
    STORE.append(DECISIONS, asdict(decision), scope=message.scope, keep=KEEP, ttl=KEEP_SECONDS)


def note_sent(scope: str, reply_to: str | None) -> None:
    """Note in a step that the bot has said something in answer to the message `reply_to`; nothing for None.

    The newest `KEEP` are known, apart from the decisions: they push none of them out.
    """
    if reply_to:
        STORE.append(SENT, reply_to, scope=scope, keep=KEEP, ttl=KEEP_SECONDS)


def sent(scope: str) -> frozenset[str]:
    """Return the messages of a chat that the bot has lately answered, by id."""
    return frozenset(one for one in STORE.items(SENT, scope=scope) if isinstance(one, str))


def of(scope: str, last: int = 20) -> list[Decision]:
    """Return the newest decisions of a chat, oldest first; entries of another shape are passed over."""
    if last <= 0:
        return []
    return [found for entry in STORE.items(DECISIONS, scope=scope, last=last) if (found := _read(entry))]


def stable_word(reason: str) -> str:
    """Return what a reason begins with, up to its colon or first number: `score 0.31 under 0.65: …` is `score`."""
    head = reason.split(":", 1)[0]
    return next((head[:at].strip() for at, char in enumerate(head) if char.isdigit()), head.strip())


def _repeats(before: list[Decision], decision: Decision) -> bool:
    return any(
        (one.sender_id, one.layer, one.engaged, one.word)
        == (decision.sender_id, decision.layer, decision.engaged, decision.word)
        for one in before
    )


def _read(entry: Any) -> Decision | None:
    if not isinstance(entry, Mapping):
        return None
    try:
        return Decision(
            str(entry["run_id"]), str(entry["message_id"]), str(entry["sender_id"]), str(entry["sender_name"]),
            str(entry["text"]), float(entry["at"]), str(entry["layer"]), bool(entry["engaged"]), str(entry["reason"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None
