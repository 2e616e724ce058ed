"""Rows of the journal's stream: their order, their text in a file, and the entries they stand for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lumia.journal import JournalEntry

START = "0-0"
"""The place before the first row."""

Position = tuple[int, int]


def position(cursor: str) -> Position:
    """Return a stream id `<ms>-<number>` as something that can be compared; the number may be left out."""
    ms, _, number = cursor.partition("-")
    return int(ms), int(number or 0)


def cursor_of(ms: int, number: int) -> str:
    """Return the stream id of a position."""
    return f"{ms}-{number}"


@dataclass(frozen=True)
class StreamRow:
    """One row of the stream as it stands there. fields: `j` the entry, `b` a Box, `e` and `y` the end of its run."""

    cursor: str
    fields: Mapping[str, str]

    @property
    def seconds(self) -> float:
        """When it was written, in seconds since 1970."""
        return position(self.cursor)[0] / 1000

    def dump(self) -> str:
        """Return the row as one line of a file."""
        return json.dumps([self.cursor, dict(self.fields)], separators=(",", ":"))

    @classmethod
    def load(cls, line: str) -> StreamRow:
        """Return the row of a line; raises `ValueError` when it is damaged."""
        cursor, fields = json.loads(line)
        return cls(str(cursor), fields)

    def entries(self) -> list[JournalEntry]:
        """Return the entries it stands for; none when it can't be read. A step that ended its run stands for two."""
        try:
            entry = JournalEntry.load(self.fields["j"], cursor=self.cursor, time=self.seconds)
        except (KeyError, ValueError, TypeError, AttributeError):
            return []
        return list(_expanded(entry, self.fields))


def _expanded(entry: JournalEntry, fields: Mapping[str, str]) -> Iterator[JournalEntry]:
    detail = {**entry.detail, "box": fields["b"]} if "b" in fields else entry.detail
    late = entry.detail.get("late")  # ms by which its commit has waited for another's, see tasks.grouped
    waited = late / 1000 if isinstance(late, int | float) else 0.0
    yield replace(entry, detail=detail, time=entry.time - waited)
    if "e" in fields:
        yield replace(
            entry, kind="end", step=None, handler="", ms=0.0, attempt=0, outcome=fields["e"],
            reason=fields.get("y", ""), detail={},
        )  # fmt: skip


def stream_row(cursor: bytes, fields: Mapping[bytes, bytes]) -> StreamRow:
    """Return a row as redis-py gives it."""
    texts = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in fields.items()}
    return StreamRow(cursor.decode(), texts)


def as_sql(value: Any) -> str:
    """Return a text that a database can hold: neither NUL nor lone surrogates in it."""
    text = str(value)
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "␀").encode("utf-8", "replace").decode()
