"""Text with entities, as segments (Bot API: MessageEntity; offsets and lengths in UTF-16 code units).

Mentions and custom emoji become segments of their own. Formatting stays with its text: `entities` of a segment, with
offsets from the segment's start, so that nothing is lost on the way there and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .utf16 import Units

Segment = dict[str, Any]
_STYLE = ("type", "url", "user", "language", "custom_emoji_id", "unix_time", "date_time_format")


@dataclass(frozen=True)
class Me:
    """The bot as getMe tells. id: its user id; username: without @; privacy: sees only part of what groups say."""

    id: str
    username: str = ""
    name: str = ""
    privacy: bool = False

    def is_named(self, username: str) -> bool:
        """Tell whether a username, without @, is the bot's; Telegram doesn't mind the case."""
        return bool(self.username) and username.lower() == self.username.lower()


@dataclass(frozen=True)
class _Piece:
    """A stretch that is no ordinary text."""

    start: int
    end: int
    segment: Segment


def read(text: str, entities: Sequence[Any], me: Me) -> list[Segment]:
    """Return the segments of a text or caption; what an entity says beyond the text's end is ignored."""
    whole = Units(text)
    known = [one for one in map(_clipped(len(whole)), entities) if one is not None]
    pieces = sorted((piece for one in known for piece in _pieces(one, whole, me)), key=lambda piece: piece.start)
    special = {"mention", "text_mention", "custom_emoji"}
    styles = [one for one in known if one["type"] not in special]
    found: list[Segment] = []
    at = 0
    for piece in pieces:
        if piece.start < at:
            continue
        found += _text(whole, at, piece.start, styles)
        found.append(_styled(piece.segment, piece.start, piece.end, styles))
        at = piece.end
    return found + _text(whole, at, len(whole), styles)


def _clipped(length: int) -> Any:
    def clip(entity: Any) -> dict[str, Any] | None:
        if not isinstance(entity, Mapping) or not isinstance(entity.get("type"), str):
            return None
        start, size = entity.get("offset"), entity.get("length")
        if type(start) is not int or type(size) is not int or start < 0:
            return None
        end = min(start + size, length)
        return {**entity, "offset": start, "length": end - start} if end > start else None

    return clip


def _pieces(entity: Mapping[str, Any], whole: Units, me: Me) -> Iterator[_Piece]:
    start, end = entity["offset"], entity["offset"] + entity["length"]
    said, kind = whole.cut(start, end), entity["type"]
    if kind == "mention" and said.startswith("@") and len(said) > 1:
        yield _Piece(start, end, mention(said[1:], me))
    elif kind == "text_mention" and _id(entity.get("user")):
        yield _Piece(start, end, {"type": "mention", "data": {"id": _id(entity["user"]), "name": said}})
    elif kind == "custom_emoji" and entity.get("custom_emoji_id"):
        yield _Piece(start, end, {"type": "emoji", "data": {"id": str(entity["custom_emoji_id"]), "name": said}})
    elif kind == "bot_command" and said.startswith("/") and "@" in said[1:]:
        name = said.partition("@")[2]
        if name:
            yield _Piece(end - len(name) - 1, end, mention(name, me))


def mention(username: str, me: Me) -> Segment:
    """Return the segment of @username: by the bot's id if it is the bot's, else by the name in lower case."""
    known = me.id if me.is_named(username) else f"@{username.lower()}"
    return {"type": "mention", "data": {"id": known, "name": username, "username": username}}


def _id(user: Any) -> str:
    found = user.get("id") if isinstance(user, Mapping) else None
    return str(found) if type(found) is int else ""


def _text(whole: Units, start: int, end: int, styles: Sequence[Mapping[str, Any]]) -> list[Segment]:
    if start >= end:
        return []
    return [_styled({"type": "text", "data": {"text": whole.cut(start, end)}}, start, end, styles)]


def _styled(segment: Segment, start: int, end: int, styles: Sequence[Mapping[str, Any]]) -> Segment:
    inside = [found for one in styles if (found := _within(one, start, end)) is not None]
    return {**segment, "data": {**segment["data"], "entities": inside}} if inside else segment


def _within(entity: Mapping[str, Any], start: int, end: int) -> dict[str, Any] | None:
    first, last = max(entity["offset"], start), min(entity["offset"] + entity["length"], end)
    if last <= first:
        return None
    kept = {key: entity[key] for key in _STYLE if key in entity}
    return {**kept, "offset": first - start, "length": last - first}


def mentions(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """Return who is mentioned, each once."""
    named = [one["data"] for one in segments if one["type"] == "mention"]
    return list({data["id"]: {"id": data["id"], "name": data["name"]} for data in named if data["name"]}.values())


def names(segments: Sequence[Segment], me: Me) -> bool:
    """Tell whether the bot is mentioned."""
    return any(one["type"] == "mention" and one["data"]["id"] == me.id for one in segments)


def commands_another(text: str, entities: Sequence[Any], me: Me) -> bool:
    """Tell whether a text begins with a command that names another bot: then it is for that one, whatever it quotes."""
    whole = Units(text)
    first = [one for one in map(_clipped(len(whole)), entities) if one and one["offset"] == 0]
    said = "".join(whole.cut(0, one["length"]) for one in first if one["type"] == "bot_command")
    name = said.partition("@")[2]
    return bool(name) and not me.is_named(name)
