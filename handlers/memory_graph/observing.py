"""What the pipeline hands to the memory: small JSON payloads of event `memory.observe`, made without asking anyone."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import lumia

from .content import fitted
from .people import person_of
from .types import Kind, Observed

EVENT = "memory.observe"


def of_message(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what to observe of a `msg` payload, None when it says nothing or lacks chat or sender."""
    chat, sender = payload.get("chat"), payload.get("sender")
    text = fitted(str(payload.get("text") or ""))
    if not text or not isinstance(chat, Mapping) or not isinstance(sender, Mapping) or not sender.get("id"):
        return None
    found = {
        "kind": "message",
        "chat": chat_of(payload.get("platform"), payload.get("account"), chat.get("kind"), chat.get("id")),
        "text": text,
        "sender": fitted(str(sender["id"]), 256),
        "sender_name": fitted(str(sender.get("card") or sender.get("name") or ""), 200),
        "message_id": fitted(str(payload["message_id"]), 256) if payload.get("message_id") else None,
        "time": _seconds(payload.get("time")),
    }
    return {name: value for name, value in found.items() if value is not None}


def of_reply(destination: str, content: Any, meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what to observe of a message the bot sends to `destination` (`msg.send, dest=…`), None without a text."""
    sent = lumia.payloads.parse_destination(destination)
    text = fitted(lumia.payloads.text_of(content))
    if not text:
        return None
    key = content.get("idempotency_key") if isinstance(content, Mapping) else None
    chat = chat_of(sent.platform, meta.get("account"), sent.kind, sent.id)
    found = {"kind": "reply", "chat": chat, "text": text, "message_id": str(key)[:256] if key else None}
    return {name: value for name, value in found.items() if value is not None}


def chat_of(platform: Any, account: Any, kind: Any, id: Any) -> str:
    """Return the text of a chat's scope, made of the same parts as heartflow's and the lane's."""
    return lumia.payloads.clean_text(f"{platform}:{account or ''}:{kind}:{id}")


def lane_of(chat: str) -> str:
    """Return the lane of a chat's observations: of their own, so that no message waits for them."""
    if len(chat) < 400 and chat.isprintable():
        return f"memory:{chat}"
    return f"memory:{blake2b(chat.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"


def observed(payload: Mapping[str, Any]) -> Observed:
    """Return the text in the content of a `memory.observe` event."""
    kind: Kind = "reply" if payload.get("kind") == "reply" else "message"
    return Observed(
        payload["text"], kind, person_of(payload.get("sender", "")), payload.get("sender_name", ""),
        payload.get("message_id"),
        payload.get("time"), payload.get("importance", 0.5),
    )  # fmt: skip


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 < value < 1e11 else None
