"""What stands for a chat's older lines (spec §12.4): paragraphs for those between k and 3k, topics for the oldest.

Paragraphs and topics follow each other without a gap: each line up to `Summary.to` is in exactly one of them.
`compression.py` decides when, and has models write the texts. An excerpt is what is written without one; it quotes what
people said, so nobody can speak in another's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import lumia

from .message import clean
from .names import speakers

if TYPE_CHECKING:
    from .lines import Line

PARAGRAPH_CHARS, TOPIC_CHARS = 600, 500
MAX_TOPICS, MAX_PARAGRAPHS = 4, 24
_ENTRY_CHARS = 160
_BETWEEN = " · "
_QUOTES = re.compile(r"\\.|\"")


@dataclass(frozen=True, slots=True)
class Part:
    """A summary of the lines numbered `first` to `last`; at: when the last of them was said."""

    first: int
    last: int
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands for the older lines: topics for the oldest, paragraphs for those between. to: the last line in it."""

    to: int = 0
    paragraphs: tuple[Part, ...] = ()
    topics: tuple[Part, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the value the store keeps."""
        return {
            "to": self.to,
            "paragraphs": [asdict(part) for part in self.paragraphs],
            "topics": [asdict(part) for part in self.topics],
        }


def read_summary(value: Any) -> Summary:
    """Return the summaries that a value of the store holds; an empty one for anything else."""
    try:
        return Summary(int(value["to"]), read_parts(value["paragraphs"]), read_parts(value["topics"]))
    except (TypeError, ValueError, KeyError):
        return Summary()


def read_parts(found: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return parts as `dataclasses.asdict` wrote them; raises ValueError, TypeError or KeyError for anything else."""
    return tuple(Part(int(one["first"]), int(one["last"]), str(one["text"]), float(one["at"])) for one in found)


def chunks(waiting: Sequence[Line], least: int, most: int, chars: int) -> list[Sequence[Line]]:
    """Cut lines into what one paragraph each stands for: `least` to `most` lines, fewer when `chars` are reached.

    Too few lines at the end are left over.
    """
    found, begin, size = [], 0, 0
    for at, line in enumerate(waiting):
        size += min(len(line.text), chars)
        if at + 1 - begin >= max(least, most) or size >= chars:
            found.append(waiting[begin : at + 1])
            begin, size = at + 1, 0
    return [*found, waiting[begin:]] if len(waiting) - begin >= least else found


def paragraph(summary: Summary, lines: Sequence[Line], text: str) -> Part:
    """Return the part that stands for the next lines after `summary`; numbers that are missing between belong to it."""
    return Part(summary.to + 1, lines[-1].n, fitted(text, PARAGRAPH_CHARS), lines[-1].at)


def with_paragraph(summary: Summary, part: Part) -> Summary:
    """Return `summary` with the paragraph that follows it."""
    return replace(summary, to=part.last, paragraphs=(*summary.paragraphs, part))


def old(summary: Summary, newest: int, k: int) -> tuple[Part, ...]:
    """Return the paragraphs whose lines are all older than the newest 3k: they are to become a topic."""
    return tuple(part for part in summary.paragraphs if part.last <= newest - 3 * k)


def with_topic(summary: Summary, count: int, text: str) -> Summary:
    """Return `summary` with its `count` oldest paragraphs as one topic."""
    gone, rest = summary.paragraphs[:count], summary.paragraphs[count:]
    return replace(summary, paragraphs=rest, topics=(*summary.topics, _joined(gone, text)))


def with_merged(summary: Summary, text: str) -> Summary:
    """Return `summary` with its two oldest topics as one."""
    return replace(summary, topics=(_joined(summary.topics[:2], text), *summary.topics[2:]))


def bounded(summary: Summary) -> Summary:
    """Return `summary` within its limits: what no model has drawn together in time is drawn together by excerpt."""
    if len(summary.paragraphs) > MAX_PARAGRAPHS:
        half = len(summary.paragraphs) // 2
        summary = with_topic(summary, half, drawn_together(summary.paragraphs[:half], TOPIC_CHARS))
    while len(summary.topics) > MAX_TOPICS:
        summary = with_merged(summary, drawn_together(summary.topics[:2], TOPIC_CHARS))
    return summary


def excerpt(lines: Sequence[Line], limit: int = PARAGRAPH_CHARS) -> str:
    """Return the most telling of some lines in their order, each with its speaker: a summary without a model.

    What was said is a JSON string, and two people of one name are told apart as in any prompt.
    """
    name = str(lumia.config.get("lumia").bot.name)
    labels = speakers(lines, name)
    texts = [_entry(labels.get(line.id, line.id) if line.by == "user" else name, line.text, limit) for line in lines]
    ranked = sorted(range(len(lines)), key=lambda at: (-_weight(lines[at].text), at))
    kept: list[int] = []
    room = limit
    for at in ranked:
        if len(texts[at]) + len(_BETWEEN) <= room or not kept:
            kept.append(at)
            room -= len(texts[at]) + len(_BETWEEN)
    return _BETWEEN.join(texts[at] for at in sorted(kept))


def drawn_together(parts: Sequence[Part], limit: int) -> str:
    """Return the beginnings of some summaries, each with an equal share of `limit` characters."""
    share = max(20, limit // max(1, len(parts)) - 3)
    return fitted(_BETWEEN.join(fitted(part.text, share) for part in parts), limit)


def fitted(text: str, limit: int) -> str:
    """Return a text on one line, without controls, and no longer than `limit` characters; a cut quotation is closed."""
    flat = " ".join(clean(text).split())
    if len(flat) <= limit:
        return flat
    shown = f"{flat[: limit - 1].rstrip()}…"
    if not _is_open(shown):
        return shown
    return f'{flat[: limit - 2].rstrip()}…"' if _is_open(flat[: limit - 2]) else f"{flat[: limit - 2].rstrip()}…"


def _is_open(text: str) -> bool:
    """Tell whether a text ends within quotation marks."""
    return len([found for found in _QUOTES.findall(text) if found == '"']) % 2 == 1


def _entry(who: str, text: str, limit: int) -> str:
    """Return a line of an excerpt, `Ann: "hi"`, no longer than `limit` characters unless the name is."""
    most = _ENTRY_CHARS
    while True:
        entry = f"{who}: {json.dumps(fitted(text, most), ensure_ascii=False)}"
        if len(entry) <= limit or most <= 8:
            return entry
        most -= min(most - 8, max(1, len(entry) - limit))


def _joined(parts: Sequence[Part], text: str) -> Part:
    return Part(parts[0].first, parts[-1].last, fitted(text, TOPIC_CHARS), parts[-1].at)


def _weight(text: str) -> int:
    """Return how telling a line may be: its length, and signs of facts, plans and questions."""
    signs = any(char.isdigit() for char in text) + any(sign in text for sign in "?？!！") + ("http" in text)
    return min(len(text), 200) + 60 * signs
