"""Segments of OneBot and of Lumia, and what of a message is media.

    text ↔ text · at ↔ mention, mention_all · reply ↔ reply · face ↔ emoji · image, record, video, file ↔ image, audio,
    video, file · anything else ↔ `onebot.<type>` with its data as it came

`write(*read(message))` gives the array form of the message again, ids as strings and names without their `@`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import cq
from .frames import identifier, whole

Segment = dict[str, Any]
MEDIA = {"image": "image", "record": "audio", "video": "video", "file": "file"}
KINDS = {kind: type for type, kind in MEDIA.items()}
PREFIX = "onebot."
_MAX_TYPE = 64 - len(PREFIX)
_MAX_URL = 4096


def array(message: Any) -> list[Segment]:
    """Return the array form of a message: given as array, as one segment or as a CQ string; oddities are left out."""
    if isinstance(message, str):
        return cq.decode(message)
    items = [message] if isinstance(message, Mapping) else message
    if not isinstance(items, (list, tuple)):
        return []
    return [{"type": item["type"], "data": _data(item.get("data"))} for item in items if _is_segment(item)]


def _is_segment(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("type"), str) and 0 < len(item["type"]) <= _MAX_TYPE


def _data(value: Any) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}


def read(message: Any) -> tuple[list[Segment], list[dict[str, Any]]]:
    """Return Lumia's segments of a received message and its media; an image's segment names its place among them."""
    media: list[dict[str, Any]] = []
    return [_read(segment["type"], segment["data"], media) for segment in array(message)], media


def _read(type: str, data: dict[str, Any], media: list[dict[str, Any]]) -> Segment:
    if type == "text":
        return {"type": "text", "data": {"text": str(data.get("text", ""))}}
    if type == "at":
        return _mention(data)
    if type == "reply" and identifier(data.get("id")):
        return {"type": "reply", "data": {**data, "id": identifier(data["id"])}}
    if type == "face" and identifier(data.get("id")):
        return {"type": "emoji", "data": {**data, "id": identifier(data["id"])}}
    if type in MEDIA:
        media.append(_medium(MEDIA[type], data))
        rest = {key: value for key, value in data.items() if key not in ("file", "url", "media")}
        return {"type": MEDIA[type], "data": {**_unread(data, media[-1]), **rest, "media": len(media) - 1}}
    return {"type": f"{PREFIX}{type}", "data": data}


def _mention(data: dict[str, Any]) -> Segment:
    target = identifier(data.get("qq"))
    rest = {key: value for key, value in data.items() if key != "qq"}
    if isinstance(rest.get("name"), str):
        rest["name"] = rest["name"].removeprefix("@")
    if target == "all":
        return {"type": "mention_all", "data": rest}
    if not target:
        return {"type": f"{PREFIX}at", "data": data}
    return {"type": "mention", "data": {**rest, "id": target}}


def _medium(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    file, url = data.get("file"), data.get("url")
    name = data.get("name") or data.get("file_name") or (file if isinstance(file, str) and "://" not in file else None)
    size = whole(data.get("file_size", data.get("size")))
    found = {
        "kind": kind,
        "ref": file if isinstance(file, str) and 0 < len(file) <= _MAX_URL else None,
        "url": url if _is_link(url) else None,
        "name": str(name)[:255] if name else None,
        "size": size if size is not None and size >= 0 else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _is_link(url: Any) -> bool:
    return isinstance(url, str) and url.startswith(("http://", "https://")) and len(url) <= _MAX_URL


def _unread(data: Mapping[str, Any], medium: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of `file` and `url` the media entry does not hold, so that nothing is lost on the way back."""
    held = {"file": medium.get("ref"), "url": medium.get("url")}
    return {key: data[key] for key, value in held.items() if key in data and data[key] != value}


def write(segments: Iterable[Mapping[str, Any]], media: Sequence[Mapping[str, Any]] = ()) -> list[Segment]:
    """Return the array form of Lumia's segments; media: of the message, for segments that name one by its place.

    What another platform calls its own is left out; files by blob are for `outgoing`, which reads them.
    """
    return list(_written(segments, media))


def _written(segments: Iterable[Mapping[str, Any]], media: Sequence[Mapping[str, Any]]) -> Iterator[Segment]:
    for segment in segments:
        kind, data = str(segment.get("type", "")), _data(segment.get("data"))
        write = _WRITERS.get(kind)
        if write is not None:
            yield write(data)
        elif kind in KINDS:
            yield {"type": KINDS[kind], "data": _file(data, media)}
        elif kind.startswith(PREFIX):
            yield {"type": kind.removeprefix(PREFIX), "data": data}


def _at(data: dict[str, Any]) -> Segment:
    rest = {key: value for key, value in data.items() if key != "id"}
    return {"type": "at", "data": {"qq": str(data.get("id", "")), **rest}}


_WRITERS: Mapping[str, Callable[[dict[str, Any]], Segment]] = {
    "text": lambda data: {"type": "text", "data": {"text": str(data.get("text", ""))}},
    "mention": _at,
    "mention_all": lambda data: {"type": "at", "data": {"qq": "all", **data}},
    "reply": lambda data: {"type": "reply", "data": {**data, "id": str(data.get("id", ""))}},
    "emoji": lambda data: {"type": "face", "data": {**data, "id": str(data.get("id", ""))}},
}


def _file(data: dict[str, Any], media: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    at = data.pop("media", None)
    medium = media[at] if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(media) else {}
    held = {"file": medium.get("ref"), "url": medium.get("url")}
    return {**{key: value for key, value in held.items() if value is not None}, **data}
