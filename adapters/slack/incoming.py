"""What the Events API sends: messages for the pipeline `msg`, everything else as events. Pure.

Fields and subtypes as in docs.slack.dev, "Events API" and "message event".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia
from lumia.payloads import dedup_key, lane

from . import mrkdwn
from .accounts import NAME
from .arrivals import Context, Name, Talk, Told, chat_of, is_ts, mentions_in, with_names
from .fields import as_dict, as_list, digest, text_at, without_secrets

TALK = frozenset({"", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of a message that somebody has said."""
CHANGES = frozenset({"message_changed", "message_deleted"})
EVENTS = frozenset({"reaction_added", "reaction_removed", "member_joined_channel", "member_left_channel"})
"""Events without a message that are passed on as `slack.<type>`."""
_SLACKBOT = "USLACKBOT"
"""Slack's own bot: it reminds and corrects people under a user's id, and has no bot_id."""
_KINDS = frozenset({"image", "audio", "video"})


def bot_user(envelope: Mapping[str, Any]) -> str:
    """Return the bot user's id that an event names in its authorizations, or ""."""
    entries = [as_dict(entry) for entry in as_list(envelope.get("authorizations"))]
    return next((text_at(entry, "user_id") for entry in entries if entry.get("is_bot")), "")


def people(envelope: Mapping[str, Any]) -> set[str]:
    """Return the ids of users that an event speaks of: who says it, and who is mentioned."""
    event = as_dict(envelope.get("event"))
    known = {part["data"]["id"] for part in mrkdwn.decode(text_at(event, "text")) if part["type"] == "mention"}
    return known | ({text_at(event, "user")} - {""})


def event(envelope: Mapping[str, Any], context: Context) -> Talk | Told | None:
    """Return what an `event_callback` means, None for what nobody needs to know."""
    inner = as_dict(envelope.get("event"))
    kind, subtype = text_at(inner, "type"), text_at(inner, "subtype")
    if kind == "app_mention" or (kind == "message" and subtype in TALK):
        return _talk(envelope, inner, context)
    if kind == "message" and subtype in CHANGES:
        return _told(f"slack.{subtype}", envelope, inner, text_at(inner, "channel"), context)
    if kind in EVENTS:
        where = text_at(inner, "channel") or text_at(as_dict(inner.get("item")), "channel")
        return _told(f"slack.{kind}", envelope, inner, where, context)
    return None


def _talk(envelope: Mapping[str, Any], event: Mapping[str, Any], context: Context) -> Talk | None:
    """Return a message; it is for the bot if it names it or is a direct one, not because it is below the bot's words.

    People talk with each other in a thread that the bot began, and Slack doesn't tell whom they answer.
    """
    channel, user, ts = (text_at(event, name) for name in ("channel", "user", "ts"))
    bot = bot_user(envelope) or context.bot
    if not (channel and user and is_ts(ts)) or event.get("bot_id") or user in (bot, _SLACKBOT):
        return None
    segments = with_names(mrkdwn.decode(text_at(event, "text")), context.name)
    shared = [_shared(one) for one in as_list(event.get("attachments")) if as_dict(one).get("is_share")]
    media = [_media(file) for file in as_list(event.get("files")) if isinstance(file, Mapping)]
    mentioned = mentions_in(segments)
    thread = text_at(event, "thread_ts")
    named = event["type"] == "app_mention" or any(one["id"] == bot for one in mentioned)
    chat = chat_of(channel, text_at(event, "channel_type"))
    msg = lumia.payloads.message(
        platform=NAME,
        account=context.account,
        chat=chat,
        sender=_sender(user, event.get("user_profile"), context.name),
        text="\n".join(filter(None, [mrkdwn.text_of(segments), *(one["data"]["text"] for one in shared)])),
        message_id=ts,
        thread=thread if is_ts(thread) else None,
        segments=segments + shared + [{"type": one["kind"], "data": {"media": at}} for at, one in enumerate(media)],
        mentions=mentioned,
        mentions_bot=named or chat["kind"] == "private",
        reply_to=thread if is_ts(thread) and thread != ts else None,
        media=media,
        time=float(ts),
    )
    return Talk(msg, _raw(envelope))


def _told(id: str, envelope: Mapping[str, Any], event: Mapping[str, Any], channel: str, context: Context) -> Told:
    chat = chat_of(channel or "workspace", text_at(event, "channel_type"))
    key = lane(NAME, context.account, chat["kind"], chat["id"])
    content = {"platform": NAME, "account": context.account, "chat": chat, "event": without_secrets(event)}
    return Told(id, content, key, dedup_key(key, f"event:{text_at(envelope, 'event_id') or digest(repr(event))}"))


def _sender(user: str, profile: Any, name: Name) -> dict[str, str]:
    given = as_dict(profile)
    shown = text_at(given, "display_name") or text_at(given, "real_name") or name(user) or user
    return {"id": user, "name": shown}


def _shared(attachment: Any) -> mrkdwn.Segment:
    """Return a message that somebody passed on; its text reads as a quote."""
    given = as_dict(attachment)
    text = mrkdwn.text_of(mrkdwn.decode(text_at(given, "text") or text_at(given, "fallback")))
    author = text_at(given, "author_name")
    quote = "\n".join(f"> {line}" for line in f"{author}: {text}".removeprefix(": ").split("\n"))
    return {"type": "slack.shared", "data": {"text": quote, "attachment": without_secrets(given)}}


def _media(file: Mapping[str, Any]) -> dict[str, Any]:
    media_type, size = text_at(file, "mimetype")[:128], file.get("size")
    url = text_at(file, "url_private_download") or text_at(file, "url_private")
    kind = media_type.partition("/")[0]
    known = {
        "url": url if len(url) <= 4096 else "",
        "name": text_at(file, "name") or text_at(file, "title"),
        "media_type": media_type,
        "ref": text_at(file, "id")[:256],
    }
    found: dict[str, Any] = {"kind": kind if kind in _KINDS else "file"} | {k: v for k, v in known.items() if v}
    return found | ({"size": size} if type(size) is int and size >= 0 else {})


def _raw(envelope: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("event_id", "event_time", "team_id", "api_app_id", "event")
    return {name: without_secrets(envelope[name]) for name in kept if name in envelope}
