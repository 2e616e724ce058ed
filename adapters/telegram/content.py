"""What a message is made of beside its text: media, stickers, polls, places (Bot API: Message)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .accounts import NAME

MAX_FILE = 20 * 1024 * 1024
"""Bytes that getFile gives at most (Bot API: getFile)."""
_MEDIA = {
    "animation": "video", "video": "video", "video_note": "video", "audio": "audio", "voice": "audio",
    "document": "file",
}  # fmt: skip
_TYPES = {"animation": "video/mp4", "video": "video/mp4", "video_note": "video/mp4", "voice": "audio/ogg"}
_KINDS = {"image", "audio", "video"}
_OTHER = (
    "sticker", "location", "venue", "contact", "poll", "dice", "game", "story", "invoice", "checklist", "paid_media",
    "live_photo", "rich_message", "giveaway", "giveaway_winners",
)  # fmt: skip
_HEAD = {
    "message_id", "message_thread_id", "is_topic_message", "direct_messages_topic", "from", "sender_chat",
    "sender_boost_count", "sender_business_bot", "sender_tag", "date", "business_connection_id", "chat",
    "forward_origin", "is_automatic_forward", "reply_to_message", "external_reply", "quote", "reply_to_story",
    "reply_to_checklist_task_id", "via_bot", "edit_date", "has_protected_content", "is_from_offline",
    "is_paid_post", "media_group_id", "author_signature", "paid_star_count", "entities", "link_preview_options",
    "suggested_post_info", "effect_id", "caption_entities", "show_caption_above_media", "has_media_spoiler",
    "reply_markup", "ephemeral_message_id", "receiver_user", "forward_from", "forward_from_chat",
    "forward_from_message_id", "forward_signature", "forward_sender_name", "forward_date",
    "new_chat_participant", "new_chat_member", "left_chat_participant",
}  # fmt: skip
_SILENT = {"reply", f"{NAME}.forward_origin", f"{NAME}.external_reply"}
_TALK = {"text", "caption", "photo", *_MEDIA, *_OTHER}


def service_of(message: Mapping[str, Any]) -> str:
    """Return what a service message tells (`new_chat_members`, `pinned_message`, …), or "" for an ordinary one.

    Whatever this version doesn't know is a service message under its own name.
    """
    if any(key in _TALK for key in message):
        return ""
    return next((key for key in message if key not in _HEAD), "")


def says_something(message: Mapping[str, Any]) -> bool:
    """Tell whether there is anything in a message that can be heard or seen."""
    return any(message.get(key) for key in _TALK)


def media_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the files of a message as `lumia.payloads.Media` has them; ref is the file id for getFile."""
    sizes = message.get("photo")
    if isinstance(sizes, Sequence) and sizes and all(isinstance(size, Mapping) for size in sizes):
        best = max(sizes, key=lambda size: (_area(size), _size(size) or 0))
        return [_medium("image", best, "image/jpeg")]
    for key, kind in _MEDIA.items():
        file = message.get(key)
        if isinstance(file, Mapping):
            declared = str(file.get("mime_type") or _TYPES.get(key, ""))[:128]
            family = declared.partition("/")[0]
            return [_medium(family if key == "document" and family in _KINDS else kind, file, declared)]
    return []


def _medium(kind: str, file: Mapping[str, Any], declared: str) -> dict[str, Any]:
    size = _size(file)
    found = {
        "kind": kind,
        "ref": str(file.get("file_id", "")),
        "name": file.get("file_name") if isinstance(file.get("file_name"), str) else None,
        "media_type": declared or None,
        "size": size,
        "error": "larger than the 20 MB that bots may fetch" if size is not None and size > MAX_FILE else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _area(size: Mapping[str, Any]) -> int:
    width, height = size.get("width"), size.get("height")
    return width * height if type(width) is int and type(height) is int else 0


def _size(file: Mapping[str, Any]) -> int | None:
    found = file.get("file_size")
    return found if type(found) is int and found >= 0 else None


def others_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the segments of what is neither text nor a file; their data is as Telegram sent it."""
    found = [key for key in _OTHER if isinstance(message.get(key), (Mapping, list))]
    if "venue" in found and "location" in found:  # a venue carries its location twice
        found.remove("location")
    return [{"type": f"{NAME}.{key}", "data": _data(message[key])} for key in found]


def _data(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {"items": list(value)}


def spoken(segments: Sequence[Mapping[str, Any]]) -> str:
    """Return a message's text: as it reads, mentions as @name, a sticker as its emoji, the rest by its kind."""
    found = ""
    for segment in segments:
        part = _spoken(segment["type"], segment["data"])
        gap = " " if found and part and not _flows(segment) and not found.endswith((" ", "\n")) else ""
        found += gap + part + (" " if part and not _flows(segment) else "")
    return found.strip(" ") if not all(map(_flows, segments)) else found


def _flows(segment: Mapping[str, Any]) -> bool:
    return segment["type"] in ("text", "mention", "emoji", *_SILENT)


def _spoken(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "text":
        return str(data["text"])
    if kind == "mention":
        return f"@{data['name']}"
    if kind == "emoji":
        return str(data["name"])
    if kind in _SILENT:
        return ""
    name = kind.removeprefix(f"{NAME}.")
    return _words(name, data) or f"[{name}]"


def _words(name: str, data: Mapping[str, Any]) -> str:
    if name == "sticker":
        return str(data.get("emoji") or "")
    if name == "dice":
        return f"{data.get('emoji', '')} {data.get('value', '')}".strip()
    if name == "poll":
        given = data.get("options")
        listed = given if isinstance(given, list) else []
        options = [str(one.get("text", "")) for one in listed if isinstance(one, Mapping)]
        return f"[poll] {data.get('question', '')}: {' / '.join(options)}"
    if name == "location":
        return f"[location] {data.get('latitude')}, {data.get('longitude')}"
    if name == "venue":
        return f"[venue] {data.get('title', '')}, {data.get('address', '')}"
    if name == "contact":
        who = f"{data.get('first_name', '')} {data.get('last_name', '')}".strip()
        return f"[contact] {who} {data.get('phone_number', '')}".strip()
    return ""
