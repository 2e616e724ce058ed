"""Carrying a memory to another machine: nothing is lost, and importing again changes nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import psycopg
import pytest

from handlers.memory_graph import exchange, forgetting, people
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from handlers.memory_graph.types import SELF, Origin
from tests.handlers.memory_graph.samples import (
    DIMENSION,
    ELSEWHERE,
    HERE,
    MODEL,
    NOW,
    Words,
    learn,
    one,
    rows,
    say,
    vector,
)  # fmt: skip

pytestmark = pytest.mark.services


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """An empty memory on another machine."""
    found = Database(database.url, model=MODEL, dimension=DIMENSION, schema=f"{database.schema}_other")
    yield found
    found.close()
    with psycopg.connect(found.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {found.schema} CASCADE".encode())


@pytest.fixture
def full(database: Database) -> Database:
    """A memory with something in every table."""
    say(database, "forgotten words", 90, topics=[("gone", 1.0)])
    for number in range(4):
        say(database, f"message {number} 你好", number, topics=[(f"topic {number % 2}", 1.0), ("all", 0.5)])
        say(database, f"elsewhere {number}", number, scope=ELSEWHERE, sender_name=f"Ann {number}")
    learn(database, "fact", "a fact of its own", 99)
    with database.transaction() as connection:
        people.relate(connection, HERE, "ann", SELF, "friend", 0.1 + 0.2, origin=Origin("rel"), now=NOW + 0.123456)
        forgetting.forget(connection, HERE, "gone", now=NOW)
    return database


def lines(database: Database) -> list[str]:
    return list(exchange.export(database, "bot"))


def test_an_import_elsewhere_exports_the_same_again(full: Database, other: Database) -> None:
    exported = lines(full)
    done = exchange.import_lines(other, exported)
    assert done.known == {}
    assert sum(done.new.values()) == len(exported) - 1
    assert {json.loads(line)["table"] for line in exported[1:]} == set(done.new)
    assert sorted(_comparable(lines(other))) == sorted(_comparable(exported))


def _comparable(exported: list[str]) -> Iterator[str]:
    """Yield lines without the numbers that each database gives by itself."""
    for line in exported:
        found = json.loads(line)
        if isinstance(content := found.get("row", {}).get("content"), dict):
            for name in ("number", "scope_id", "embedder_id"):
                content.pop(name, None)
        if found.get("row", {}).get("source_table") == "memory_terms":
            found["row"]["row_id"] = found["row"]["row_id"].partition("/")[2]
        yield json.dumps(found, sort_keys=True)


def test_importing_again_changes_nothing(full: Database, other: Database) -> None:
    exported = lines(full)
    exchange.import_lines(other, exported)
    before, totals = lines(other), rows(other, "SELECT * FROM memory_scopes ORDER BY id")
    again = exchange.import_lines(other, exported)
    assert again.new == {}
    assert lines(other) == before
    assert rows(other, "SELECT * FROM memory_scopes ORDER BY id") == totals


def test_an_import_that_was_ended_is_finished_by_the_next(
    full: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_CHUNK", 3)
    exported = lines(full)

    def cut_off() -> Iterator[str]:
        yield from itertools.islice(exported, 8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exchange.import_lines(other, cut_off())
    assert one(other, "SELECT count(*) FROM memory_topics") > 0
    exchange.import_lines(other, exported)
    assert sorted(_comparable(lines(other))) == sorted(_comparable(exported))


def test_what_was_imported_is_worked_with_as_if_written_here(full: Database, other: Database) -> None:
    say(other, "before the import", 50)
    exchange.import_lines(other, lines(full))
    assert rows(full, "SELECT term, tf, length FROM memory_terms ORDER BY 1, 2, 3") == rows(
        other,
        "SELECT term, tf, length FROM memory_terms WHERE term NOT IN ('before', 'the', 'import') ORDER BY 1, 2, 3",
    )
    written = say(other, "after the import", 51)
    assert one(other, "SELECT seq FROM memory_instances WHERE id = %s", written.id) == one(
        other, "SELECT max(seq) FROM memory_instances"
    )
    ((batch,),) = rows(other, "SELECT DISTINCT batch FROM memory_recycled")
    with other.transaction() as connection:
        assert forgetting.restore(connection, HERE, batch).instances == 1
    assert one(other, "SELECT count(*) FROM memory_terms WHERE term = 'forgotten'") == 1


def test_a_topic_of_the_same_name_takes_what_hung_on_the_imported_one(full: Database, other: Database) -> None:
    say(other, "mine", 60, topics=[("ALL", 1.0)])
    own = one(other, "SELECT id FROM memory_topics")
    exchange.import_lines(other, lines(full))
    assert one(other, "SELECT count(*) FROM memory_topics WHERE name_key = 'all'") == 1
    assert one(other, "SELECT count(*) FROM memory_mentions WHERE topic_id = %s", own) == 5
    assert one(other, "SELECT count(*) FROM topic_edges WHERE %s IN (from_topic, to_topic)", own) == 2


def test_the_memory_of_one_bot_becomes_anothers_by_name(full: Database, other: Database) -> None:
    exchange.import_lines(other, lines(full), bot="second")
    assert rows(other, "SELECT DISTINCT bot FROM memory_scopes") == [("second",)]


def test_only_the_named_bots_memory_is_exported(full: Database) -> None:
    assert len(list(exchange.export(full, "nobody"))) == 1
    assert len(list(exchange.export(full))) == len(lines(full))


def test_another_model_embeds_the_texts_anew_or_is_told_why_not(full: Database, other: Database) -> None:
    exported = lines(full)
    third = Database(other.url, model="third", dimension=8, schema=other.schema)
    with pytest.raises(EmbedderError, match="embedded anew"):
        exchange.import_lines(third, exported)
    exchange.import_lines(third, exported, passages=Words("third", 8).passages)
    ((stored,),) = rows(third, "SELECT content_embedding FROM memory_instances WHERE content = 'a fact of its own'")
    assert stored.to_numpy() == pytest.approx(vector("a fact of its own", 8))
    third.close()


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda found: [], "first line"),
        (lambda found: ["{}", *found[1:]], "first line"),
        (lambda found: [found[0].replace('"version":1', '"version":9')], "version 9"),
        (lambda found: [*found[:2], found[2][:40]], "line 3 is no JSON"),
        (lambda found: [found[0], "[1]"], "line 2 is no JSON object"),
        (lambda found: [found[0], '{"table":"pg_user","row":{}}'], "line 2 names no table"),
        (lambda found: [found[0], '{"table":"memory_topics","row":{"bot":"b","chat":""}}'], "line 2 is damaged"),
    ],
)
def test_a_damaged_file_names_the_line(full: Database, other: Database, spoil: object, said: str) -> None:
    with pytest.raises(exchange.ExchangeError, match=said):
        exchange.import_lines(other, spoil(lines(full)))  # type: ignore[operator]
