"""OneBot events made into messages: pure, so that a socket, a report and a page of history read alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lumia

from . import segments
from .frames import identifier, whole
from .spoken import spoken

NAME, PLATFORM = "onebot", "qq"
UNKNOWN_GROUP = "284840486"
"""What NapCat gives as the source of a temporary chat whose group it does not know."""
_TALK = ("message",)
_NO_TALK = "notice"


@dataclass(frozen=True)
class Chat:
    """Where an event happened. group: the group a temporary private chat came from, "" when there is none."""

    kind: str
    id: str
    group: str = ""
    name: str = ""

    @property
    def field(self) -> str:
        """Return its name in a mapping, e.g. `group-12`."""
        return f"{self.kind}-{self.id}"


def is_message(event: Mapping[str, Any]) -> bool:
    """Tell whether an event is something said, by whomever (`message_sent` is what the bot said itself)."""
    return event.get("post_type") in ("message", "message_sent")


def is_talk(event: Mapping[str, Any], self_id: str = "") -> bool:
    """Tell whether somebody else said something: no echo of the bot, no line of the platform's own in a group."""
    if event.get("post_type") not in _TALK or event.get("sub_type") == _NO_TALK:
        return False
    speaker = identifier(event.get("user_id"))
    return bool(speaker) and speaker != (identifier(event.get("self_id")) or self_id)


def chat_of(event: Mapping[str, Any]) -> Chat | None:
    """Return where an event happened, None when it says nothing sensible.

    For a message `message_type` decides: a temporary chat is private although NapCat names its group. Other events are
    the group's if they name one.
    """
    user, group = identifier(event.get("user_id")), identifier(event.get("group_id"))
    kind = event.get("message_type") if is_message(event) else ("group" if group else "private")
    name = event.get("group_name")
    if kind == "group" and group:
        return Chat("group", group, name=name if isinstance(name, str) else "")
    if kind == "private" and user:
        return Chat("private", user, group=group if group != UNKNOWN_GROUP else "")
    return None


def message_id(event: Mapping[str, Any]) -> str:
    """Return a message's id as text: an int32, unique within the account; one that has none is told by its content."""
    found = identifier(event.get("message_id"))
    if found:
        return found
    text = json.dumps(event, sort_keys=True, default=str)
    return f"x{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:31]}"


def time_of(event: Mapping[str, Any]) -> float:
    """Return when it happened, in seconds since 1970; now when the event does not say."""
    seconds = whole(event.get("time"))
    return float(seconds) if seconds is not None and 0 < seconds < 10**11 else lumia.system.now()


def message(event: Mapping[str, Any], account: str, self_id: str) -> dict[str, Any]:
    """Return the `msg` payload of a message event; raises `lumia.errors.PayloadError` when it can't be one."""
    chat = chat_of(event)
    if chat is None:
        raise lumia.errors.PayloadError("a message event names neither a group nor a user that it could be from")
    me = identifier(event.get("self_id")) or self_id
    parts, media = segments.read(event.get("message"))
    mentions = [_mention(part["data"]) for part in parts if part["type"] == "mention"]
    replied = [part["data"]["id"] for part in parts if part["type"] == "reply"]
    fields = {
        "segments": parts,
        "mentions": mentions,
        "mentions_bot": chat.kind == "private" or any(named["id"] == me for named in mentions),
        "media": media,
        "time": time_of(event),
        **({"reply_to": replied[0]} if replied else {}),
    }
    return lumia.payloads.message(
        platform=PLATFORM,
        account=account,
        chat={"kind": chat.kind, "id": chat.id, **({"name": chat.name} if chat.name else {})},
        sender=_sender(event),
        text=spoken(parts),
        message_id=message_id(event),
        **fields,
    )


def _mention(data: Mapping[str, Any]) -> dict[str, str]:
    name = data.get("name")
    return {"id": data["id"], **({"name": name} if isinstance(name, str) and name else {})}


def _sender(event: Mapping[str, Any]) -> dict[str, str]:
    told = event.get("sender")
    given: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    named = event.get("anonymous")
    anonymous = named.get("name") if isinstance(named, Mapping) else None
    found = {
        "name": anonymous or given.get("nickname"),
        "card": given.get("card"),
        "role": given.get("role"),
    }
    known = {key: value for key, value in found.items() if isinstance(value, str) and value}
    return {"id": identifier(event.get("user_id")) or identifier(given.get("user_id")), **known}


def event_id(event: Mapping[str, Any]) -> str:
    """Return the id under which a notice or request is an event of Lumia's, "" for what is neither.

    `onebot.notice.<notice_type>` and `onebot.request.<request_type>`.
    """
    kind = event.get("post_type")
    if kind not in ("notice", "request"):
        return ""
    name = event.get(f"{kind}_type")
    fine = isinstance(name, str) and 0 < len(name) <= 64 and name.isascii() and name.replace("_", "").isalnum()
    return f"{NAME}.{kind}.{name}" if fine else ""


def fingerprint(event: Mapping[str, Any]) -> str:
    """Return what tells one notice from another, so that one reported twice is one."""
    text = json.dumps(event, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
