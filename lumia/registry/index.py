"""Search among plugins, ranked as registry-worker/src/search.ts ranks them (docs/registry.md)."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lumia.errors import RegistryError
from lumia.registry.terms import as_name, asked, asked_by_parts, indexed, indexed_name

PAGE = 50
BROAD = 1500
"""With more matches than this, names come first and then stars: weighing each by its words would tell little."""
_SCHEMA = Path(__file__).with_name("index.sql")
_COLUMNS = ("name", "display_name", "description", "author", "git_url", "latest_tag", "stars")
_SHOWN = ", ".join(f"p.{column}" for column in _COLUMNS)
_NAMED = "words MATCH '{name display_name} : (' || ?1 || ')'"
_POPULAR = f"SELECT {_SHOWN} FROM plugins p ORDER BY p.stars DESC, p.name LIMIT {PAGE} OFFSET ?1"
_NARROW = f"""SELECT {_SHOWN} FROM (SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ?1) hit
    CROSS JOIN plugins p ON p.id = hit.id
    ORDER BY p.name = ?2 DESC, hit.score * p.boost, p.name LIMIT {PAGE} OFFSET ?3"""
_BROAD = f"""SELECT {_SHOWN} FROM plugins p WHERE p.id IN (SELECT rowid FROM words WHERE words MATCH ?1)
    ORDER BY CASE WHEN p.id IN (SELECT rowid FROM words WHERE {_NAMED}) THEN 1 + (p.name = ?2) ELSE 0 END DESC,
    p.stars DESC, p.name LIMIT {PAGE} OFFSET ?3"""
_CLOSE = f"""SELECT {_SHOWN} FROM (SELECT rowid AS id, rank AS score FROM grams WHERE grams MATCH ?1
    ORDER BY rank LIMIT 10) hit JOIN plugins p ON p.id = hit.id ORDER BY hit.score, p.name"""


class Index:
    """Summaries of plugins (the seven keys of `search.json`), held in memory."""

    def __init__(self, summaries: Iterable[dict[str, Any]]) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._db.executescript(_SCHEMA.read_text("utf-8"))
        except sqlite3.OperationalError as error:
            raise RegistryError(
                f"this Python's SQLite ({sqlite3.sqlite_version}) can't search texts ({error}); "
                "use one built with FTS5, as those of python.org and of the distributions are"
            ) from None
        for number, one in enumerate(sorted(summaries, key=lambda summary: str(summary["name"])), 1):
            self._add(number, one)

    def _add(self, number: int, one: dict[str, Any]) -> None:
        boost = 1 + math.log10(1 + one["stars"]) / 4
        row = (number, *(one[column] for column in _COLUMNS), boost)
        self._db.execute("INSERT INTO plugins VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        words = (indexed_name(one["name"]), *(indexed(one[column]) for column in _COLUMNS[1:4]))
        self._db.execute(
            "INSERT INTO words (rowid, name, display_name, description, author) VALUES (?, ?, ?, ?, ?)",
            (number, *words),
        )
        parts = f"{one['name']} {indexed(one['display_name'])}"
        self._db.execute("INSERT INTO grams (rowid, name) VALUES (?, ?)", (number, parts))

    def search(self, text: str, page: int = 1) -> tuple[list[dict[str, Any]], int]:
        """Return one page of at most 50 summaries, best first, and the number of all."""
        start = (page - 1) * PAGE
        words = asked(text)
        if words is None:
            if text.strip():
                return [], 0
            return self._rows(_POPULAR, start), self._number("SELECT count(*) FROM plugins")
        total = self._number("SELECT count(*) FROM words WHERE words MATCH ?", words)
        if total:
            return self._rows(_BROAD if total > BROAD else _NARROW, words, as_name(text), start), total
        parts = asked_by_parts(text)
        close = self._rows(_CLOSE, parts) if parts else []
        return close, len(close)

    def close(self) -> None:
        """Let go of the memory."""
        self._db.close()

    def _rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        return [dict(zip(_COLUMNS, row, strict=True)) for row in self._db.execute(sql, values)]

    def _number(self, sql: str, *values: object) -> int:
        return int(self._db.execute(sql, values).fetchone()[0])
