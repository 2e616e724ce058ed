"""A message to send, as the calls of the Bot API that send it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lumia

from . import markdown
from .accounts import NAME
from .rich import Rich, Writer, split

LIMIT, CAPTION = 4096, 1024
"""UTF-16 units of a message and of a caption; Telegram counts after entity parsing, so this is on the safe side."""
DIRECT = "direct-"
"""How the thread of a channel's direct messages begins; every person has one (Bot API: DirectMessagesTopic)."""
MAX_PHOTO = 10 * 1024 * 1024
_WAYS = {"image": ("sendPhoto", "photo"), "audio": ("sendAudio", "audio"), "video": ("sendVideo", "video"),
         "file": ("sendDocument", "document")}  # fmt: skip
_NATIVE = {"image": ("image/jpeg", "image/png", "image/webp"), "video": ("video/mp4",),
           "audio": ("audio/mpeg", "audio/mp4", "audio/x-m4a")}  # fmt: skip
_ITEMS = {
    "sticker": ("sendSticker", {"file_id": "sticker"}),
    "location": ("sendLocation", {"latitude": "latitude", "longitude": "longitude"}),
    "venue": ("sendVenue", {"title": "title", "address": "address"}),
    "contact": ("sendContact", {"phone_number": "phone_number", "first_name": "first_name", "last_name": "last_name"}),
    "dice": ("sendDice", {"emoji": "emoji"}),
}


@dataclass(frozen=True)
class Post:
    """One call that makes one message. file: {"field", "blob", "name"} of what is uploaded with it."""

    method: str
    params: Mapping[str, Any]
    file: Mapping[str, Any] | None = None


def posts(segments: Sequence[Mapping[str, Any]], *, marked: bool = True) -> list[Post]:
    """Return the calls that send `segments`, in order, without the address; marked: texts are Markdown.

    A text that fits goes along with the first file as its caption. Raises `lumia.errors.PayloadError` for a file
    without bytes, and for a message of which nothing would be left.
    """
    said = text_of(segments, marked=marked)
    files = [_file(one) for one in segments if one["type"] in _WAYS]
    items = [item for one in segments if (item := _item(one)) is not None]
    if files and said.text.strip() and len(said) <= CAPTION:
        files[0] = replace(files[0], params={**files[0].params, "caption": said.text, **entities(said, "caption_")})
        said = Rich("")
    texts = [Post("sendMessage", {"text": part.text, **entities(part)}) for part in split(said, LIMIT)]
    found = [*texts, *files, *items]
    if not found:
        raise lumia.errors.PayloadError("there is nothing in this message that Telegram could show")
    return found


def fetched(segments: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return `segments` with every file in the blob store; what has an address only is fetched, as an effect.

    Raises as `lumia.media.outgoing`. A file that Telegram has already (`ref`, its file_id) stays there.
    """
    found: list[Mapping[str, Any]] = []
    for number, segment in enumerate(segments):
        if segment["type"] in _WAYS and not (segment.get("data") or {}).get("ref"):
            file = lumia.media.outgoing(segment, number)
            found.append({"type": file.kind, "data": {"blob": dict(file.blob), "name": file.name}})
        else:
            found.append(dict(segment))
    return found


def addressed(found: Sequence[Post], chat: str, thread: str, reply_to: str, *, preview: bool = True) -> Iterator[Post]:
    """Yield the calls with their address; only the first one answers the quoted message."""
    answer = reply_to
    for post in found:
        params = {**place(chat, thread), **post.params}
        if answer.isascii() and answer.isdecimal():
            params["reply_parameters"] = {"message_id": int(answer), "allow_sending_without_reply": True}
        if post.method == "sendMessage" and not preview:
            params["link_preview_options"] = {"is_disabled": True}
        yield replace(post, params=params)
        answer = ""


def place(chat: str, thread: str) -> dict[str, int | str]:
    """Return the parameters that say where something goes; thread: as `incoming.thread_of` gave it, "" for none."""
    direct = thread.startswith(DIRECT)
    topic = thread.removeprefix(DIRECT)
    if not (topic.isascii() and topic.isdecimal()) or thread == "1":  # General is where no topic is named
        return {"chat_id": chat_id(chat)}
    return {"chat_id": chat_id(chat), "direct_messages_topic_id" if direct else "message_thread_id": int(topic)}


def chat_id(chat: str) -> int | str:
    """Return a chat's id as the Bot API takes it: a number, or @name of a public one."""
    try:
        return int(chat)
    except ValueError:
        return chat


def edit(segments: Sequence[Mapping[str, Any]], *, marked: bool = True) -> dict[str, Any]:
    """Return the text and entities for editMessageText; what is too long is cut, since a message stays one."""
    said = text_of(segments, marked=marked)
    parts = split(said, LIMIT)
    if not parts:
        raise lumia.errors.PayloadError("a Telegram message can be edited to a text only; to take it back, delete it")
    return {"text": parts[0].text, **entities(parts[0])}


def text_of(segments: Sequence[Mapping[str, Any]], *, marked: bool = True) -> Rich:
    """Return the text of segments with its entities."""
    writer = Writer()
    for segment in segments:
        kind, data = segment["type"], segment.get("data") or {}
        start = writer.at
        if kind == "text":
            if marked and "entities" not in data:
                markdown.write(writer, str(data.get("text", "")))
            else:
                writer.write(str(data.get("text", "")))
        elif kind == "mention":
            _mention(writer, data)
        elif kind == "mention_all":
            writer.write("@all")
        elif kind == "emoji":
            _emoji(writer, data)
        elif kind not in _WAYS and kind != "reply" and not kind.startswith(f"{NAME}."):
            writer.write(f"[{kind}]")
        writer.note(data.get("entities") or (), start)
    return writer.rich()


def _mention(writer: Writer, data: Mapping[str, Any]) -> None:
    """A known @username is text that Telegram links itself; who has none is named by an entity."""
    id, name = str(data.get("id", "")), str(data.get("name") or "")
    username = str(data.get("username") or (id[1:] if id.startswith("@") else ""))
    if username:
        start = writer.at
        writer.write(f"@{username}")
        writer.note([{"type": "mention", "offset": 0, "length": writer.at - start}], start)
    elif id.isascii() and id.isdecimal():
        with writer.styled("text_mention", user={"id": int(id), "is_bot": False, "first_name": name or id}):
            writer.write(name or id)
    else:
        writer.write(f"@{name or id}")


def _emoji(writer: Writer, data: Mapping[str, Any]) -> None:
    """Custom emoji of bots need a paid username; Telegram then shows the ordinary one they stand on."""
    id, name = str(data.get("id", "")), str(data.get("name") or "")
    if id.isascii() and id.isdecimal() and name:
        with writer.styled("custom_emoji", custom_emoji_id=id):
            writer.write(name)
    else:
        writer.write(name or f"[emoji {id}]")


def entities(rich: Rich, prefix: str = "") -> dict[str, Any]:
    """Return the parameter that says which entities a text or, with `caption_`, a caption has."""
    return {f"{prefix}entities": list(rich.entities)} if rich.entities else {}


def _file(segment: Mapping[str, Any]) -> Post:
    kind, data = segment["type"], segment.get("data") or {}
    blob, ref = data.get("blob"), data.get("ref")
    if isinstance(blob, Mapping):
        method, field = _way(kind, str(blob.get("media_type", "")), int(blob.get("size") or 0))
        return Post(method, {}, {"field": field, "blob": dict(blob), "name": str(data.get("name") or "")})
    if ref:
        method, field = _WAYS[kind]
        return Post(method, {field: str(ref)})
    raise lumia.errors.PayloadError(f"a segment {kind!r} to send has a blob, got {', '.join(data) or 'nothing'}")


def _way(kind: str, media_type: str, size: int) -> tuple[str, str]:
    """Return method and field for a file; what Telegram wouldn't take as such goes as a document."""
    essence = media_type.partition(";")[0]
    if kind == "audio" and essence == "audio/ogg":
        return "sendVoice", "voice"
    if kind == "image" and essence == "image/gif":
        return "sendAnimation", "animation"
    fits = kind == "file" or (essence in _NATIVE[kind] and not (kind == "image" and size > MAX_PHOTO))
    return _WAYS[kind if fits else "file"]


def _item(segment: Mapping[str, Any]) -> Post | None:
    """Return how one of Telegram's own kinds is sent again; other kinds can't be."""
    name, data = segment["type"].removeprefix(f"{NAME}."), segment.get("data") or {}
    if not segment["type"].startswith(f"{NAME}."):
        return None
    if name == "poll" and isinstance(data.get("options"), Sequence):
        options = [{"text": str(one.get("text", ""))} for one in data["options"] if isinstance(one, Mapping)]
        kept = {key: data[key] for key in ("is_anonymous", "type", "allows_multiple_answers") if key in data}
        return Post("sendPoll", {"question": str(data.get("question", "")), "options": options, **kept})
    if name not in _ITEMS:
        return None
    method, fields = _ITEMS[name]
    params = {there: data[here] for here, there in fields.items() if data.get(here) is not None}
    if name == "venue" and isinstance(data.get("location"), Mapping):
        params |= {key: data["location"].get(key) for key in ("latitude", "longitude")}
    return Post(method, params)
