"""What is sent: segments as Discord's messages of at most 2000 characters and 10 files (resources/message.mdx)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lumia

from . import markup

MOST_CHARACTERS = 2000
MOST_FILES = 10
MOST_BYTES = 24 * 1024 * 1024
"""Bytes of the files of one message: a request holds 25 MiB with all that is around them (reference.mdx)."""
MOST_STICKERS = 3
_FILES = ("image", "audio", "video", "file")


@dataclass
class Draft:
    """One message to Discord. media: its files, as (number of the segment, segment)."""

    content: str = ""
    media: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    stickers: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Tell whether Discord would refuse it: there must be something in it."""
        return not (self.content.strip() or self.media or self.stickers)


@dataclass(frozen=True)
class Letter:
    """A send as Discord takes it: its messages in order, who may be pinged, and which message it answers."""

    drafts: tuple[Draft, ...]
    allowed: Mapping[str, Any]
    reply_to: str = ""


def write(segments: Iterable[Mapping[str, Any]], reply_to: str = "") -> Letter:
    """Return the letter that segments make. A file after text goes with it; text after a file begins a new message."""
    allowed = markup.Allowed()
    blocks = [Draft()]
    for n, segment in enumerate(segments):
        data = segment.get("data") or {}
        if segment.get("type") == "reply":
            reply_to = reply_to or str(data.get("id", ""))
        elif segment.get("type") in _FILES:
            blocks[-1].media.append((n, segment))
        elif segment.get("type") == "discord.sticker" and data.get("id"):
            blocks[-1].stickers.append(str(data["id"]))
        else:
            if blocks[-1].media or blocks[-1].stickers:
                blocks.append(Draft())
            text = markup.content(segment, allowed)
            blocks[-1].content += lumia.payloads.text_of({"segments": [segment]}) if text is None else text
    drafts = [draft for block in blocks for draft in _split(block) if not draft.empty]
    return Letter(tuple(drafts), allowed.as_dict(), reply_to)


def _split(block: Draft) -> list[Draft]:
    texts = (
        lumia.adapters.parts(block.content, MOST_CHARACTERS, lumia.adapters.utf16) if block.content.strip() else [""]
    )
    drafts = [Draft(text) for text in texts]
    drafts[-1].stickers = block.stickers[:MOST_STICKERS]
    drafts[-1].media, *rest = _loads(block.media)
    return drafts + [Draft(media=load) for load in rest]


def _loads(media: Sequence[tuple[int, Mapping[str, Any]]]) -> list[list[tuple[int, Mapping[str, Any]]]]:
    """Return files as they fit into messages, by number and, where it is known, by size; at least one, empty load."""
    loads: list[list[tuple[int, Mapping[str, Any]]]] = [[]]
    room = MOST_BYTES
    for one in media:
        size = _size(one[1])
        if loads[-1] and (len(loads[-1]) == MOST_FILES or size > room):
            loads.append([])
            room = MOST_BYTES
        loads[-1].append(one)
        room -= size
    return loads


def _size(segment: Mapping[str, Any]) -> int:
    blob = (segment.get("data") or {}).get("blob")
    size = blob.get("size") if isinstance(blob, Mapping) else 0
    return size if isinstance(size, int) else 0


def body(
    draft: Draft, allowed: Mapping[str, Any], *, files: Sequence[str] = (), nonce: str = "", reply_to: str = ""
) -> dict[str, Any]:
    """Return the JSON of one message.

    files: the names of what is uploaded with it. nonce: Discord takes a message with it once. reply_to: what it quotes.
    """
    made: dict[str, Any] = {"allowed_mentions": dict(allowed)}
    if draft.content.strip():
        made["content"] = draft.content
    if draft.stickers:
        made["sticker_ids"] = list(draft.stickers)
    if files:
        made["attachments"] = [{"id": n, "filename": name} for n, name in enumerate(files)]
    if nonce:
        made |= {"nonce": nonce, "enforce_nonce": True}
    if reply_to:
        made["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return made


def edited(segments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON of an edit; raises `lumia.errors.RejectedError` for what one message can't hold."""
    letter = write(segments)
    if len(letter.drafts) != 1 or letter.drafts[0].media:
        raise lumia.errors.RejectedError(
            f"an edited message of Discord has 1 to {MOST_CHARACTERS} characters and no new files; send a new message"
        )
    return {"content": "", **body(letter.drafts[0], letter.allowed)}
