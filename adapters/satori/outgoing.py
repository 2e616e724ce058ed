"""What is sent: segments as contents of messages, none longer than an account's `split_at`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lumia

from . import segments


@dataclass
class Draft:
    """One message. pieces: its segments; files: numbers of those among all that have a file."""

    pieces: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    length: int = 0

    @property
    def empty(self) -> bool:
        """Tell whether there is nothing in it that could be shown."""
        return not any(_shows(segment) for _, segment in self.pieces)


def _shows(segment: Mapping[str, Any]) -> bool:
    if segment.get("type") == "text":
        return bool(str((segment.get("data") or {}).get("text", "")).strip())
    return segment.get("type") != "reply"


def drafts(parts: Iterable[Mapping[str, Any]], reply_to: str, limit: int) -> list[Draft]:
    """Return the messages that segments make; the first one quotes what it answers."""
    found = [Draft()]
    for n, whole in enumerate(parts):
        if whole.get("type") == "reply":
            reply_to = reply_to or str((whole.get("data") or {}).get("id") or "")
            continue
        for segment in _cut(whole, limit):
            length = _length(segment)
            if found[-1].pieces and found[-1].length + length > limit:
                found.append(Draft())
            found[-1].pieces.append((n, segment))
            found[-1].length += length
    full = [draft for draft in found if not draft.empty]
    if full and reply_to:
        full[0].pieces.insert(0, (-1, {"type": "reply", "data": {"id": reply_to}}))
    return full


def _cut(segment: Mapping[str, Any], limit: int) -> Sequence[Mapping[str, Any]]:
    if segment.get("type") != "text" or _length(segment) <= limit:
        return [segment]
    data = segment.get("data") or {}
    return [{"type": "text", "data": {**data, "text": text}} for text in lumia.adapters.parts(str(data["text"]), limit)]


def _length(segment: Mapping[str, Any]) -> int:
    return len(lumia.payloads.text_of({"segments": [segment]})) if segment.get("type") == "text" else 16


def content(draft: Draft, sources: Mapping[int, str]) -> str:
    """Return a draft as Satori takes it. sources: the addresses of files, by the number of their segment."""
    return segments.join(
        (segments.path_of(segment), segments.write(segment, sources.get(n, ""))) for n, segment in draft.pieces
    )


def packed(draft: Draft) -> list[Any]:
    """Return a draft as JSON."""
    return [[n, dict(segment)] for n, segment in draft.pieces]


def unpacked(pieces: Sequence[Any], names: Mapping[int, str]) -> Draft:
    """Return what `packed` made JSON of. names: those of its files, by the number of their segment."""
    return Draft([(n, {**one, "data": {**one["data"], "name": names[n]}} if n in names else one) for n, one in pieces])


def files(draft: Draft) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the segments of a draft that have a file, with their numbers."""
    return [(n, segment) for n, segment in draft.pieces if segment.get("type") in segments.TAGS]


def edited(parts: Sequence[Mapping[str, Any]], limit: int) -> Draft:
    """Return what a message becomes; raises `lumia.errors.RejectedError` for what one message can't hold."""
    made = drafts([part for part in parts if part.get("type") != "reply"], "", limit)
    if len(made) != 1 or files(made[0]):
        raise lumia.errors.RejectedError(
            f"an edited message has 1 to {limit} characters (split_at) and no files; send a new message"
        )
    return made[0]
