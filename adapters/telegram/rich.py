"""Text with entities, being written and being cut (Bot API: MessageEntity; UTF-16 code units)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import lumia

units = lumia.adapters.utf16
Entity = dict[str, Any]
_UNFENCED = str.maketrans("`~", "''")


@dataclass(frozen=True)
class Rich:
    """A text and its entities, whose offsets and lengths are in UTF-16 code units."""

    text: str
    entities: tuple[Entity, ...] = ()

    def __len__(self) -> int:
        return units(self.text)


@dataclass
class Writer:
    """Collects text; entities are noted around what is written inside `styled`."""

    _texts: list[str] = field(default_factory=list)
    _entities: list[Entity] = field(default_factory=list)
    _at: int = 0

    @property
    def at(self) -> int:
        """How many units were written."""
        return self._at

    def write(self, text: str) -> None:
        """Append plain text."""
        self._texts.append(text)
        self._at += units(text)

    @contextmanager
    def styled(self, kind: str, **more: Any) -> Iterator[None]:
        """Give what is written inside an entity."""
        start, slot = self._at, len(self._entities)
        yield
        if self._at > start:
            self._entities.insert(slot, {"type": kind, "offset": start, "length": self._at - start, **more})

    def note(self, entities: Sequence[Mapping[str, Any]], start: int) -> None:
        """Add entities of a text written at `start`; one that goes on where its like ended is the same entity."""
        for entity in entities:
            moved = {**entity, "offset": entity["offset"] + start}
            before = next((one for one in self._entities if _ends_at(one, moved)), None)
            if before is not None and start == moved["offset"]:
                before["length"] += moved["length"]
            else:
                self._entities.append(moved)

    def rich(self) -> Rich:
        """Return what was written."""
        return Rich("".join(self._texts), tuple(self._entities))


def _ends_at(entity: Entity, other: Entity) -> bool:
    place = ("offset", "length")
    alike = {key: entity[key] for key in entity if key not in place} == {
        key: other[key] for key in other if key not in place
    }
    return alike and entity["offset"] + entity["length"] == other["offset"]


def split(rich: Rich, limit: int) -> list[Rich]:
    """Return parts of at most `limit` units each, cut at paragraphs, sentences or words; entities are cut along."""
    if len(rich) <= limit:
        return [rich] if rich.text.strip() else []
    # Code is an entity here: a fence in the text is text, and must not be closed and opened again.
    unfenced = rich.text.translate(_UNFENCED)
    found, at = [], 0
    for part in lumia.adapters.parts(unfenced, limit, measure=units):
        at = unfenced.index(part, at)
        start = units(rich.text[:at])
        text = rich.text[at : at + len(part)]
        found.append(Rich(text, tuple(_clipped(rich.entities, start, start + units(text)))))
        at += len(part)
    return found


def _clipped(entities: Sequence[Entity], start: int, end: int) -> Iterator[Entity]:
    for entity in entities:
        first, last = max(entity["offset"], start), min(entity["offset"] + entity["length"], end)
        if first < last:
            yield {**entity, "offset": first - start, "length": last - first}
