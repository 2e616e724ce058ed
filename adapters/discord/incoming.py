"""A MESSAGE_CREATE as a `msg` payload (DESIGN §10). Source: resources/message.mdx, events/gateway-events.mdx."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import lumia

from . import markup
from .accounts import NAME
from .guilds import THREADS, Guild

TALK = (0, 19)
"""Message types that somebody wrote: an ordinary one and a reply."""
FORWARD = 1
EPOCH = 1420070400.0
_KINDS = ("image", "audio", "video")
_ENDINGS = {
    "image": ("png", "jpg", "jpeg", "gif", "webp", "bmp", "avif"),
    "audio": ("mp3", "ogg", "oga", "wav", "flac", "m4a", "opus"),
    "video": ("mp4", "webm", "mov", "mkv"),
}


def ignored(data: Mapping[str, Any]) -> str:
    """Return why a message is no talk of a person's, "" when it is."""
    if data.get("webhook_id"):
        return "from a webhook"
    if data.get("author", {}).get("bot"):
        return "from a bot"
    return "" if data.get("type", 0) in TALK else f"of type {data.get('type')}"


def is_blank(data: Mapping[str, Any]) -> bool:
    """Tell whether nothing of a message can be seen."""
    seen = ("content", "attachments", "embeds", "components", "sticker_items", "message_snapshots", "poll")
    return not any(data.get(key) for key in seen)


def is_hidden(data: Mapping[str, Any], me: str) -> bool:
    """Tell whether a message that `is_blank` is so without the intent MESSAGE_CONTENT: what it says is kept from us.

    In direct messages and where the bot is mentioned nothing is; an invitation to an activity says nothing by itself.
    """
    told = ("activity", "application", "call", "shared_client_theme")
    mentioned = any(user.get("id") == me for user in data.get("mentions", ()))
    return bool(data.get("guild_id")) and not mentioned and not any(data.get(key) for key in told)


def message(data: Mapping[str, Any], *, account: str, me: str, guild: Guild | None = None) -> dict[str, Any]:
    """Return the `msg` payload of a message that is not `ignored`; raises `lumia.errors.PayloadError`.

    me: the bot's user id. guild: what is known of the server it was said in.
    """
    private = not data.get("guild_id")
    channel = str(data["channel_id"])
    media = [_file(item) for item in _attachments(data)]
    parts = _segments(data, _names(data, guild), media)
    thread = data.get("channel_type") in THREADS or (guild is not None and guild.is_thread(channel))
    chat: dict[str, Any] = {"kind": "private" if private else "group", "id": channel}
    name = guild.channels.get(channel, ("",))[0] if guild is not None else ""
    optional = {"thread": channel if thread else None, "reply_to": _replied(data)}
    return lumia.payloads.message(
        platform=NAME,
        account=account,
        chat={**chat, "name": name} if name else chat,
        sender=_sender(data, guild),
        message_id=str(data["id"]),
        text=markup.text_of(parts),
        segments=parts,
        mentions=[_mention(user) for user in data.get("mentions", ())],
        mentions_bot=private or _mentions(data, me, guild),
        media=media,
        time=moment(data),
        **{key: value for key, value in optional.items() if value is not None},
    )


def moment(data: Mapping[str, Any]) -> float:
    """Return when a message was written, in seconds since 1970: its timestamp, else what its id holds."""
    try:
        return dt.datetime.fromisoformat(str(data.get("timestamp"))).timestamp()
    except ValueError:
        return born(str(data["id"]))


def born(id: str) -> float:
    """Return when Discord made an id (a snowflake), in seconds since 1970."""
    return (int(id) >> 22) / 1000 + EPOCH


def display_name(user: Mapping[str, Any]) -> str:
    """Return what a user is called outside of any server."""
    return str(user.get("global_name") or user.get("username") or "")


def _sender(data: Mapping[str, Any], guild: Guild | None) -> dict[str, Any]:
    author, member = data["author"], data.get("member") or {}
    found = {"id": str(author["id"]), "name": display_name(author)}
    if member.get("nick"):
        found["card"] = str(member["nick"])
    if guild is not None:
        found["role"] = guild.rank(found["id"], [str(id) for id in member.get("roles", ())])
    return found


def _mention(user: Mapping[str, Any]) -> dict[str, Any]:
    name = _called(user)
    return {"id": str(user["id"]), "name": name} if name else {"id": str(user["id"])}


def _called(user: Mapping[str, Any]) -> str:
    return str((user.get("member") or {}).get("nick") or display_name(user))


def _names(data: Mapping[str, Any], guild: Guild | None) -> markup.Names:
    roles = {str(id): "" for id in data.get("mention_roles", ())}
    channels = guild.channel_names() if guild is not None else {}
    named = {str(channel["id"]): str(channel.get("name", "")) for channel in data.get("mention_channels", ())}
    return markup.Names(
        users={str(user["id"]): _called(user) for user in data.get("mentions", ())},
        roles={**roles, **(guild.role_names() if guild is not None else {})},
        channels={**channels, **named},
        everyone=bool(data.get("mention_everyone")),
    )


def _mentions(data: Mapping[str, Any], me: str, guild: Guild | None) -> bool:
    if any(user.get("id") == me for user in data.get("mentions", ())):
        return True
    mine = guild.mine if guild is not None else ()
    if any(str(role) in mine for role in data.get("mention_roles", ())):
        return True
    answered = data.get("referenced_message") or {}
    return data.get("type") == 19 and answered.get("author", {}).get("id") == me


def _replied(data: Mapping[str, Any]) -> str | None:
    reference = data.get("message_reference") or {}
    if reference.get("type", 0) == FORWARD or not reference.get("message_id"):
        return None
    return str(reference["message_id"])


def _segments(data: Mapping[str, Any], names: markup.Names, media: Sequence[Mapping[str, Any]]) -> list[markup.Segment]:
    answered = _replied(data)
    parts: list[markup.Segment] = [{"type": "reply", "data": {"id": answered}}] if answered else []
    parts += markup.segments(str(data.get("content") or ""), names)
    for snapshot in _snapshots(data):
        reference = data.get("message_reference") or {}
        origin = {key: str(reference[key]) for key in ("message_id", "channel_id", "guild_id") if reference.get(key)}
        parts.append({"type": "discord.forward", "data": origin})
        parts += markup.segments(str(snapshot.get("content") or ""), markup.Names(channels=names.channels))
    stickers = [
        *data.get("sticker_items", ()),
        *(item for shot in _snapshots(data) for item in shot.get("sticker_items", ())),
    ]
    parts += [{"type": "discord.sticker", "data": dict(sticker)} for sticker in stickers]
    if data.get("poll"):
        parts.append({"type": "discord.poll", "data": _poll(data["poll"])})
    return parts + [{"type": item["kind"], "data": {"media": index}} for index, item in enumerate(media)]


def _poll(poll: Mapping[str, Any]) -> dict[str, Any]:
    answers = [str((answer.get("poll_media") or {}).get("text") or "") for answer in poll.get("answers", ())]
    return {"question": str((poll.get("question") or {}).get("text") or ""), "answers": answers}


def _snapshots(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item.get("message") or {} for item in data.get("message_snapshots") or ()]


def _attachments(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item for origin in (data, *_snapshots(data)) for item in origin.get("attachments") or ()]


def _file(item: Mapping[str, Any]) -> dict[str, Any]:
    name, given = str(item.get("filename") or ""), str(item.get("content_type") or "")
    found: dict[str, Any] = {"kind": _kind(name, given), "ref": str(item.get("id") or "") or None}
    if isinstance(item.get("url"), str) and len(item["url"]) <= 4096:
        found["url"] = item["url"]
    if name:
        found["name"] = str(item.get("title") or name)
    if given and len(given) <= 128:
        found["media_type"] = given
    if isinstance(item.get("size"), int) and item["size"] >= 0:
        found["size"] = item["size"]
    return found


def _kind(name: str, content_type: str) -> str:
    general = content_type.partition("/")[0]
    if general in _KINDS:
        return general
    ending = name.rpartition(".")[2].lower()
    return next((kind for kind, endings in _ENDINGS.items() if not content_type and ending in endings), "file")
