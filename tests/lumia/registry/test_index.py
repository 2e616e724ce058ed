"""The index of `lumia registry serve` is the part of the worker's database that search needs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import lumia.registry

MIGRATIONS = Path(__file__).resolve().parents[3] / "registry-worker" / "migrations"
SERVED = Path(lumia.registry.__file__).with_name("index.sql")


def made(script: str) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.executescript(script)
    return database


def test_both_registries_search_in_the_same_tables() -> None:
    migrations = sorted(MIGRATIONS.glob("*.sql"))
    worker = made("".join(one.read_text("utf-8") for one in migrations))
    served = made(SERVED.read_text("utf-8"))
    columns = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('plugins')"
    assert set(served.execute(columns)) <= set(worker.execute(columns))
    for name in ("plugins_by_stars", "words", "grams"):
        texts = [" ".join(one.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0].split())
                 for one in (served, worker)]  # fmt: skip
        assert texts[0] == texts[1]
    rank = "SELECT v FROM words_config WHERE k = 'rank'"
    assert served.execute(rank).fetchall() == worker.execute(rank).fetchall() != []
