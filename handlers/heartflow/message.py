"""The view heartflow has of a `msg` payload (DESIGN §10): tolerant of what is absent, safe to show a model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lumia

from .names import visible

LOCAL_PLATFORMS = frozenset({"console", "webhook"})
"""Where whoever writes is there for the bot."""
_NAME_LENGTH = 40
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# A colon ends the speaker's name in a prompt; bidi controls can make one name look like another.
_NOT_IN_NAMES = re.compile(r"[\s:：\[\]\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_TEXT_SEGMENTS = frozenset({"text", "plain"})
_MENTION_SEGMENTS = frozenset({"mention", "at"})
FILES = frozenset({"image", "audio", "video", "file"})
"""Kinds that show nothing in a text but their place, as `[image]`."""
_SILENT_SEGMENTS = frozenset({"reply", "quote", ""})


@dataclass(frozen=True, slots=True)
class Message:
    """One incoming message; ids are strings, `sent` is in seconds since the epoch or None.

    reply_to: the id of the message it quotes. mentions: ids of the people it names.
    """

    platform: str
    account: str
    chat_kind: str
    chat_id: str
    sender_id: str
    sender_name: str
    text: str
    kinds: frozenset[str]
    mentions_bot: bool
    pid: int | None = None
    message_id: str | None = None
    sent: float | None = None
    thread: str | None = None
    reply_to: str | None = None
    mentions: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """A private chat is always addressed to the bot."""
        return self.chat_kind == "private"

    @property
    def local(self) -> bool:
        """Whoever writes there is there for the bot."""
        return self.platform in LOCAL_PLATFORMS

    @property
    def addressed(self) -> bool:
        """The bot is mentioned, or the only one listening."""
        return self.private or self.mentions_bot

    @property
    def scope(self) -> str:
        """The store scope of this chat as this account sees it: the same parts as the lane's (DESIGN §4)."""
        return f"{self.platform}:{self.account}:{self.chat_kind}:{self.chat_id}"

    def keys(self, value: str) -> tuple[str, ...]:
        """Return how the configuration may name an id: qualified by the platform first, then bare."""
        return f"{self.platform}:{value}", value


def read(payload: Any, meta: Mapping[str, Any] | None = None) -> Message:
    """Return the `Message` in a `msg` payload.

    `meta["pid"]` numbers a platform that `lumia.payloads.PIDS` doesn't know.
    Raises `lumia.errors.PayloadError` when there is nothing to tell chat or sender by.
    """
    fields = _mapping(payload, "the msg payload")
    chat, sender = _mapping(fields.get("chat"), "chat"), _mapping(fields.get("sender"), "sender")
    platform, sender_id = _required(fields, "platform"), _required(sender, "sender.id")
    text = clean(str(fields.get("text") or ""))
    mentioned = bool(fields.get("mentions_bot"))
    return Message(
        platform=platform,
        account=_optional(fields.get("account")) or "",
        chat_kind=_required(chat, "chat.kind"),
        chat_id=_required(chat, "chat.id"),
        sender_id=sender_id,
        sender_name=display_name(sender) or sender_id,
        text=text,
        kinds=_kinds(fields, text, mentioned),
        mentions_bot=mentioned,
        pid=lumia.payloads.PIDS.get(platform) or (meta or {}).get("pid"),
        message_id=_optional(fields.get("message_id")),
        sent=_seconds(fields.get("time")),
        thread=_optional(fields.get("thread")),
        reply_to=_optional(fields.get("reply_to")),
        mentions=_mentioned(fields.get("mentions")),
    )


def clean(text: str) -> str:
    """Return `text` without what breaks stores and models: lone surrogates, NUL and other control characters."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CONTROLS.sub("", whole)


def cut(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters with a note of what was left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … [{len(text) - limit} more characters]"


def display_name(sender: Mapping[str, Any]) -> str:
    """Return the name people see in the chat, on one line and without what marks a speaker in a prompt or hides."""
    raw = clean(str(sender.get("card") or sender.get("name") or ""))
    return visible(_NOT_IN_NAMES.sub(" ", raw)).strip()[:_NAME_LENGTH].strip()


def _kinds(fields: Mapping[str, Any], text: str, mentioned: bool) -> frozenset[str]:
    lists = [found for name in ("segments", "media") if isinstance(found := fields.get(name), list)]
    named = {_type_of(part) for parts in lists for part in parts}
    shown = named - _TEXT_SEGMENTS - _MENTION_SEGMENTS - _SILENT_SEGMENTS
    if _has_words(text, shown):
        shown.add("text")
    if mentioned:
        shown.add("mention")
    return frozenset(shown)


def _has_words(text: str, kinds: set[str]) -> bool:
    """Tell whether anything is said beside the places of a message's files, which adapters put into its text."""
    for kind in FILES & kinds:
        text = text.replace(f"[{kind}]", "")
    return bool(text.strip())


def _mentioned(found: Any) -> tuple[str, ...]:
    named = (one.get("id") for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()
    return tuple(clean(str(id)) for id in named if id)


def _type_of(part: Any) -> str:
    if not isinstance(part, Mapping):
        return "unknown"
    named = part.get("type") or part.get("kind") or str(part.get("media_type") or "").partition("/")[0]
    return str(named or "unknown").lower()


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise lumia.errors.PayloadError(
        f"heartflow can't read a message: {what} is {type(value).__name__}, not an object; "
        "start 'msg' with the payload that lumia.payloads.Msg describes"
    )


def _required(fields: Mapping[str, Any], path: str) -> str:
    value = fields.get(path.rpartition(".")[2])
    if value is None or value == "":
        raise lumia.errors.PayloadError(
            f"heartflow can't read a message: {path} is missing; "
            "start 'msg' with the payload that lumia.payloads.Msg describes"
        )
    return clean(str(value))


def _optional(value: Any) -> str | None:
    return None if value is None or value == "" else clean(str(value))


def _seconds(value: Any) -> float | None:
    """Return a usable time stamp; platforms send zeros, strings and worse."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
