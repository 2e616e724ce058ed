"""Replies on their way: where they go, in how many parts, and how the bot hears itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import lumia

from . import splitting
from .lines import Line
from .message import Message, clean

LONGEST_PAUSES = 50.0
"""Seconds between the first part of a reply and its last: the chat's lane waits for them."""


def destination(message: Message) -> str:
    """Return the event id that sends to where `message` came from; raises `lumia.errors.PayloadError`."""
    if not isinstance(message.pid, int):
        raise lumia.errors.PayloadError(
            f"platform {message.platform!r} has no number, so nothing can be sent there; "
            "its adapter sets meta['pid'] (100 or more) on the Box of each message"
        )
    return lumia.payloads.destination(message.pid, message.platform, message.chat_kind, message.chat_id)


def send(to: str, message: Message, text: str, config: Any) -> int:
    """Emit `text` as a reply to `message`, through the account that received it (DESIGN §10); returns the parts.

    Long texts go out in parts with pauses a typing person would make; the pauses are delays of the queue.
    """
    meta = {"account": message.account, **({"thread": message.thread} if message.thread else {})}
    parts, waited = splitting.parts(text, most=config.part_chars, limit=config.max_parts), 0.0
    for number, part in enumerate(parts):
        content: dict[str, Any] = {"text": part}
        if message.message_id is not None:
            content["idempotency_key"] = _idempotency_key(message, number)
            if number == 0:
                content["reply_to"] = message.message_id
        waited += splitting.pause(part) if number else 0.0
        lumia.event.start(id=to, content=lumia.Box.any(content, meta=meta), delay=min(waited, LONGEST_PAUSES))
    return len(parts)


def own_line(destination: str, content: Any, meta: Mapping[str, Any], name: str, at: float) -> tuple[str, Line] | None:
    """Return (scope of the chat, line) of something the bot says, None when it has no text."""
    try:
        to, text = lumia.payloads.parse_destination(destination), clean(lumia.payloads.text_of(content)).strip()
    except lumia.errors.PayloadError:
        return None
    account = clean(str(meta.get("account") or ""))
    answered = content.get("reply_to") if isinstance(content, Mapping) else None
    line = Line("bot", account, name, text, at, reply_to=None if answered is None else clean(str(answered)))
    return (f"{to.platform}:{account}:{to.kind}:{to.id}", line) if text else None


def bot_name() -> str:
    """Return what the bot is called in `config/lumia.toml`."""
    return str(lumia.config.get("lumia").bot.name)


def _idempotency_key(message: Message, number: int) -> str:
    named = f"{message.scope}:{message.message_id}".encode(errors="replace")
    part = f":{number + 1}" if number else ""
    return f"heartflow:{hashlib.sha256(named).hexdigest()[:32]}{part}"
