"""What Slack sends, as what Lumia understands: messages for the pipeline `msg`, everything else as events. Pure.

Fields and subtypes as in docs.slack.dev, "Events API", "message event", "slash commands", "interaction payloads".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import lumia
from lumia.payloads import clean_text, dedup_key, lane

from . import mrkdwn
from .accounts import NAME

TALK = frozenset({"", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of a message that somebody has said."""
CHANGES = frozenset({"message_changed", "message_deleted"})
EVENTS = frozenset({"reaction_added", "reaction_removed", "member_joined_channel", "member_left_channel"})
"""Events without a message that are passed on as `slack.<type>`."""
_TS = re.compile(r"\d{1,15}\.\d{1,9}")
_HIDDEN = frozenset({"token", "response_url", "response_urls", "trigger_id"})
_KINDS = frozenset({"image", "audio", "video"})

Name = Callable[[str], str]
"""Gives the name of a user id, "" as long as nobody knows it."""


def _nameless(id: str) -> str:
    return ""


@dataclass(frozen=True)
class Context:
    """What is known beforehand. account: its name in the configuration. bot: the bot's user id, "" if not known."""

    account: str
    bot: str = ""
    name: Name = _nameless
    time: float = 0.0


@dataclass(frozen=True)
class Talk:
    """A message to accept. raw: what becomes `msg.slack`. response_url: where an answer may be posted, a secret."""

    msg: dict[str, Any]
    raw: dict[str, Any]
    response_url: str = field(default="", repr=False)


@dataclass(frozen=True)
class Told:
    """Something to tell as event `id`. answer_id: the message id under which `response_url` is kept."""

    id: str
    content: dict[str, Any]
    key: str
    dedup: str
    answer_id: str = ""
    response_url: str = field(default="", repr=False)


def is_ts(id: str) -> bool:
    """Tell whether a message id is Slack's, so that a thread can hang on it."""
    return _TS.fullmatch(id) is not None


def bot_user(envelope: Mapping[str, Any]) -> str:
    """Return the bot user's id that an event names in its authorizations, or ""."""
    entries = [_dict(entry) for entry in _list(envelope.get("authorizations"))]
    return next((_text(entry, "user_id") for entry in entries if entry.get("is_bot")), "")


def people(envelope: Mapping[str, Any]) -> set[str]:
    """Return the ids of users that an event speaks of: who says it, and who is mentioned."""
    event = _dict(envelope.get("event"))
    named = {part["data"]["id"] for part in mrkdwn.decode(_text(event, "text")) if part["type"] == "mention"}
    return named | ({_text(event, "user")} - {""})


def event(envelope: Mapping[str, Any], context: Context) -> Talk | Told | None:
    """Return what an `event_callback` means, None for what nobody needs to know."""
    inner = _dict(envelope.get("event"))
    kind, subtype = _text(inner, "type"), _text(inner, "subtype")
    if kind == "app_mention" or (kind == "message" and subtype in TALK):
        return _talk(envelope, inner, context)
    if kind == "message" and subtype in CHANGES:
        return _told(f"slack.{subtype}", envelope, inner, _text(inner, "channel"), context)
    if kind in EVENTS:
        where = _text(inner, "channel") or _text(_dict(inner.get("item")), "channel")
        return _told(f"slack.{kind}", envelope, inner, where, context)
    return None


def _talk(envelope: Mapping[str, Any], event: Mapping[str, Any], context: Context) -> Talk | None:
    channel, user, ts = (_text(event, name) for name in ("channel", "user", "ts"))
    bot = bot_user(envelope) or context.bot
    if not (channel and user and is_ts(ts)) or event.get("bot_id") or user == bot:
        return None
    segments = _named(mrkdwn.decode(_text(event, "text")), context.name)
    media = [_media(file) for file in _list(event.get("files")) if isinstance(file, Mapping)]
    mentioned = _mentions(segments)
    thread = _text(event, "thread_ts")
    named = event["type"] == "app_mention" or any(one["id"] == bot for one in mentioned)
    chat = _chat(channel, _text(event, "channel_type"))
    msg = lumia.payloads.message(
        platform=NAME,
        account=context.account,
        chat=chat,
        sender=_sender(user, event.get("user_profile"), context.name),
        text=mrkdwn.text_of(segments),
        message_id=ts,
        thread=thread if is_ts(thread) else None,
        segments=segments + [{"type": one["kind"], "data": {"media": at}} for at, one in enumerate(media)],
        mentions=mentioned,
        mentions_bot=named or chat["kind"] == "private",
        reply_to=thread if is_ts(thread) and thread != ts else None,
        media=media,
        time=float(ts),
    )
    return Talk(msg, _raw(envelope))


def _told(id: str, envelope: Mapping[str, Any], event: Mapping[str, Any], channel: str, context: Context) -> Told:
    chat = _chat(channel or "workspace", _text(event, "channel_type"))
    key = lane(NAME, context.account, chat["kind"], chat["id"])
    content = {"platform": NAME, "account": context.account, "chat": chat, "event": _clean(event)}
    return Told(id, content, key, dedup_key(key, f"event:{_text(envelope, 'event_id') or _digest(repr(event))}"))


def command(form: Mapping[str, str], context: Context) -> Talk | None:
    """Return a slash command as a message to the bot: the command and its words. None for what is none."""
    channel, user, name = form.get("channel_id", ""), form.get("user_id", ""), form.get("command", "")
    if not (channel and user and name):
        return None
    segments = _named(mrkdwn.decode(f"{name} {form.get('text', '')}".strip()), context.name)
    msg = lumia.payloads.message(
        platform=NAME,
        account=context.account,
        chat=_chat(channel, ""),
        sender={"id": user, "name": form.get("user_name") or context.name(user) or user},
        text=mrkdwn.text_of(segments),
        message_id=f"command-{_digest(form.get('trigger_id') or repr(sorted(form.items())))}",
        segments=segments,
        mentions=_mentions(segments),
        mentions_bot=True,
        time=context.time,
    )
    return Talk(msg, {"command": _clean(form)}, form.get("response_url", ""))


def interaction(payload: Mapping[str, Any], context: Context) -> Told | None:
    """Return a click, a submitted view or a shortcut as event `slack.<type>`. None for what is none.

    Its content names an `id`: a reply with it as `reply_to` reaches who clicked also where the bot is no member.
    """
    kind, user = _text(payload, "type"), _text(_dict(payload.get("user")), "id")
    if not re.fullmatch(r"[a-z_]{1,48}", kind) or not user:
        return None
    container = _dict(payload.get("container"))
    channel = _text(_dict(payload.get("channel")), "id") or _text(container, "channel_id")
    chat = _chat(channel, "") if channel else {"kind": "private", "id": user}
    thread = _text(_dict(payload.get("message")), "thread_ts") or _text(container, "thread_ts")
    id = f"action-{_digest(_text(payload, 'trigger_id') or repr(payload))}"
    key = lane(NAME, context.account, chat["kind"], chat["id"])
    content = {
        "platform": NAME,
        "account": context.account,
        "chat": chat,
        "id": id,
        "sender": {"id": user, "name": context.name(user) or _text(_dict(payload.get("user")), "name") or user},
        "trigger_id": _text(payload, "trigger_id"),
        "payload": _clean(payload),
        **({"thread": thread} if is_ts(thread) else {}),
    }
    return Told(f"slack.{kind}", content, key, dedup_key(key, id), id, _response_url(payload))


def _response_url(payload: Mapping[str, Any]) -> str:
    listed = [_dict(entry) for entry in _list(payload.get("response_urls"))]
    return _text(payload, "response_url") or next((_text(entry, "response_url") for entry in listed), "")


def _chat(channel: str, channel_type: str) -> dict[str, str]:
    private = channel_type == "im" or channel.startswith("D")
    return {"kind": "private" if private else "group", "id": channel}


def _sender(user: str, profile: Any, name: Name) -> dict[str, str]:
    given = _dict(profile)
    shown = _text(given, "display_name") or _text(given, "real_name") or name(user) or user
    return {"id": user, "name": shown}


def _named(segments: list[mrkdwn.Segment], name: Name) -> list[mrkdwn.Segment]:
    for segment in segments:
        data = segment["data"]
        if segment["type"] == "mention" and (known := data.get("label") or name(data["id"])):
            data["name"] = known
    return segments


def _mentions(segments: list[mrkdwn.Segment]) -> list[dict[str, str]]:
    found = {part["data"]["id"]: part["data"].get("name", "") for part in segments if part["type"] == "mention"}
    return [{"id": id, "name": name} if name else {"id": id} for id, name in found.items()]


def _media(file: Mapping[str, Any]) -> dict[str, Any]:
    media_type, size = _text(file, "mimetype")[:128], file.get("size")
    url = _text(file, "url_private_download") or _text(file, "url_private")
    kind = media_type.partition("/")[0]
    known = {
        "url": url if len(url) <= 4096 else "",
        "name": _text(file, "name") or _text(file, "title"),
        "media_type": media_type,
        "ref": _text(file, "id")[:256],
    }
    found: dict[str, Any] = {"kind": kind if kind in _KINDS else "file"} | {k: v for k, v in known.items() if v}
    return found | ({"size": size} if type(size) is int and size >= 0 else {})


def _raw(envelope: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("event_id", "event_time", "team_id", "api_app_id", "event")
    return {name: _clean(envelope[name]) for name in kept if name in envelope}


def _clean(value: Any) -> Any:
    """Return a copy without what is secret or worth nothing later: the old verification token, response addresses."""
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean(item) for key, item in value.items() if key not in _HIDDEN}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return clean_text(value) if isinstance(value, str) else value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return clean_text(value) if isinstance(value, str) else ""
