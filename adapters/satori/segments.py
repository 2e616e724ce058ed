"""Message elements as segments and back (satori.chat, Standard Elements).

Segments are flat, elements are not: what decorates a piece (`<b>`, `<a href=…>`, …) goes with it as `data["in"]`, a
list of [name, attributes] from the outside in, with a number for each paragraph, since two of them are not one. So
handlers find texts, mentions and files without knowing Satori, and all of it comes out again. An element that is no
piece of a line (`<message forward>`, `<button>`, a platform's own) is one segment `satori.<name>` with its attributes
and its content as Satori writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lumia

from . import markup
from .markup import Attribute, Element

Segment = dict[str, Any]
Inside = list[list[Any]]

BLOCKS = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "blockquote", "pre"])
"""Elements that begin a line of their own."""
INLINE = frozenset(["b", "strong", "i", "em", "u", "ins", "s", "del", "spl", "code", "sup", "sub", "a", "span", "font"])
WRAPPERS = BLOCKS | INLINE | {"ul", "ol"}
"""Elements whose content is read as if they were not there."""
FILES = {"img": "image", "image": "image", "audio": "audio", "video": "video", "file": "file"}
TAGS = {"image": "img", "audio": "audio", "video": "video", "file": "file"}


@dataclass
class Reading:
    """What a message holds. media: its files as items of `msg`; quoted: the element of the message it answers."""

    segments: list[Segment] = field(default_factory=list)
    media: list[dict[str, Any]] = field(default_factory=list)
    quoted: Element | None = None
    blocks: int = 0


def read(content: str) -> Reading:
    """Return what a message's content says."""
    found = Reading()
    _read(markup.parse(content), [], found)
    return found


def _read(nodes: Iterable[Element | str], path: Inside, found: Reading) -> None:
    for node in nodes:
        if isinstance(node, str):
            _text(found, node, path)
        elif node.name == "br":
            _text(found, "\n", path)
        elif node.name in WRAPPERS and node.children:
            _read(node.children, [*path, _step(node, found)], found)
        elif node.name == "message" and not node.attributes and node.children:
            _read(node.children, path, found)
        elif node.name == "quote" and node.get("id"):
            found.quoted = found.quoted or node
            found.segments.append(_placed("reply", {"id": node.get("id")}, node, ("id",), path))
        else:
            found.segments.append(_leaf(node, path, found.media))


def _step(node: Element, found: Reading) -> list[Any]:
    if node.name not in BLOCKS:
        return [node.name, dict(node.attributes)]
    found.blocks += 1
    return [node.name, dict(node.attributes), found.blocks]


def _text(found: Reading, text: str, path: Inside) -> None:
    last = found.segments[-1] if found.segments else None
    if last is not None and last["type"] == "text" and last["data"].get("in", []) == path:
        last["data"]["text"] += text
        return
    found.segments.append({"type": "text", "data": {"text": text, **({"in": path} if path else {})}})


def _leaf(node: Element, path: Inside, media: list[dict[str, Any]]) -> Segment:
    if node.name == "at" and node.get("id") and not node.get("type") and not node.children:
        return _placed("mention", _named(node), node, ("id", "name"), path)
    if node.name == "at" and node.get("type") in ("all", "here") and not node.children:
        here = {"name": "here"} if node.get("type") == "here" else {}
        return _placed("mention_all", here, node, ("type",), path)
    if node.name == "emoji" and node.get("id"):
        return _placed("emoji", _named(node), node, ("id", "name"), path)
    kind, source = FILES.get(node.name), node.get("src") or node.get("url")
    if kind and source:
        media.append(_item(kind, node, source))
        return _placed(kind, {"media": len(media) - 1}, node, ("src", "url", "title"), path)
    return _placed(f"satori.{node.name}"[:64], {}, node, (), path)


def _named(node: Element) -> dict[str, str]:
    return {key: node.get(key) for key in ("id", "name") if node.get(key)}


def _placed(type: str, data: dict[str, Any], node: Element, told: Sequence[str], path: Inside) -> Segment:
    """Return a segment. told: the attributes that `data` tells of already."""
    rest = {key: value for key, value in node.attributes.items() if key not in told or value is True}
    more: dict[str, Any] = {"attributes": rest} if rest else {}
    if node.children:
        more["content"] = markup.render(node.children)
    if path:
        more["in"] = path
    return {"type": type, "data": {**data, **more}}


def _item(kind: str, node: Element, source: str) -> dict[str, Any]:
    item: dict[str, Any] = {"kind": kind, "source": source}
    if node.get("title"):
        item["name"] = node.get("title")
    return item


# --- the other way


def write(segment: Mapping[str, Any], source: str = "") -> str:
    """Return a segment as Satori's markup, without what it is in. source: the address of its file, if it is one."""
    type, data = str(segment.get("type", "")), segment.get("data") or {}
    given = data.get("attributes")
    rest: dict[str, Attribute | None] = dict(given) if isinstance(given, Mapping) else {}
    content = data["content"] if isinstance(data.get("content"), str) else ""
    name = str(data["name"]) if data.get("name") else None
    if type == "text":
        return markup.text(str(data.get("text", "")))
    if type == "mention" and data.get("id"):
        return markup.tag("at", {"id": str(data["id"]), "name": name, **rest})
    if type == "mention_all":
        return markup.tag("at", {"type": "here" if name == "here" else "all", **rest})
    if type == "emoji" and data.get("id"):
        return markup.tag("emoji", {"id": str(data["id"]), "name": name, **rest}, content)
    if type == "reply" and data.get("id"):
        return markup.tag("quote", {"id": str(data["id"]), **rest}, content)
    if type in TAGS:
        return markup.tag(TAGS[type], {"src": source or None, "title": name, **rest}, content)
    if type.startswith("satori."):
        return markup.tag(type.removeprefix("satori."), rest, content)
    return markup.text(lumia.payloads.text_of({"segments": [segment]}))


def path_of(segment: Mapping[str, Any]) -> Inside:
    """Return what a segment is in; [] for what makes no sense."""
    given = (segment.get("data") or {}).get("in")
    if not isinstance(given, list):
        return []
    fine = all(
        isinstance(one, list) and len(one) in (2, 3) and isinstance(one[0], str) and isinstance(one[1], Mapping)
        for one in given
    )
    return given if fine else []


def join(pieces: Iterable[tuple[Inside, str]]) -> str:
    """Return written segments as one content; neighbours share what both are in."""
    written = ""
    now: Inside = []
    for path, piece in pieces:
        common = 0
        while common < min(len(now), len(path)) and now[common] == path[common]:
            common += 1
        written += _closing(now[common:]) + _opening(path[common:]) + piece
        now = path
    return written + _closing(now)


def _opening(path: Inside) -> str:
    return "".join(markup.tag(name, attributes, " ").removesuffix(f" </{name}>") for name, attributes, *_ in path)


def _closing(path: Inside) -> str:
    return "".join(f"</{name}>" for name, *_ in reversed(path))


# --- what people read


def text_of(segments: Iterable[Mapping[str, Any]]) -> str:
    """Return segments as a person reads them: @names, #channels, :emoji:, [image], links with their address."""
    written = ""
    now: Inside = []
    for segment in segments:
        path = path_of(segment)
        if _block(path) != _block(now) and written and not written.endswith("\n"):
            written += "\n"
        read = _said(segment)
        apart = read.startswith("[") and segment.get("type") != "text" and written and not written[-1].isspace()
        written += f" {read}" if apart else read
        now = path
    return lumia.payloads.clean_text(written)


def _block(path: Inside) -> list[Any]:
    return [step for step in path if step[0] in BLOCKS]


def _said(segment: Mapping[str, Any]) -> str:
    type, data = str(segment.get("type", "")), segment.get("data") or {}
    attributes = data.get("attributes") or {}
    if type == "mention_all":
        return f"@{data.get('name') or 'all'}"
    if type == "emoji":
        return f":{data.get('name') or data.get('id')}:"
    if type == "text":
        href = next((one[1].get("href") for one in path_of(segment) if one[0] == "a"), "")
        said = str(data.get("text", ""))
        return f"{said} ({href})" if isinstance(href, str) and href and href != said else said
    if type == "satori.sharp":
        return f"#{attributes.get('name') or attributes.get('id') or ''}"
    if type == "satori.at":
        return f"@{attributes.get('name') or attributes.get('role') or attributes.get('id') or ''}"
    if type == "satori.a":
        return str(attributes.get("href", ""))
    if type.startswith("satori.") and isinstance(data.get("content"), str):
        return text_of(read(data["content"]).segments)
    if type.startswith("satori."):
        return "" if type == "satori.message" else f"[{type.removeprefix('satori.')}]"
    return lumia.payloads.text_of({"segments": [segment]})


def mentions(segments: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield whom a message names, each once."""
    seen: set[str] = set()
    for segment in segments:
        data = segment["data"]
        if segment["type"] == "mention" and data["id"] not in seen:
            seen.add(data["id"])
            yield {key: str(data[key]) for key in ("id", "name") if data.get(key)}
