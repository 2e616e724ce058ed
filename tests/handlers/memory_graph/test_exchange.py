"""Carrying a memory to another machine: nothing is lost, and importing again changes nothing."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest

from handlers.memory_graph import exchange, forgetting, people
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from handlers.memory_graph.types import SELF, Origin, Scope
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


def packed(numbers: list[float]) -> str:
    """Return a vector as a file has it."""
    return base64.b64encode(np.asarray(numbers, "<f4").tobytes()).decode()


def spoiled(found: list[str], **changes: object) -> list[str]:
    """Return a file whose second line has other values, or lacks those that are None."""
    line = json.loads(found[1])
    for name, value in changes.items():
        holder = line if name in line else line["row"]
        holder[name] = value
        if value is None:
            del holder[name]
    return [found[0], json.dumps(line)]


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
    assert one(other, "SELECT mentions FROM memory_topics WHERE id = %s", own) == 5


def test_what_is_there_under_another_id_is_no_damage(full: Database, other: Database) -> None:
    with other.transaction() as connection:
        people.relate(connection, HERE, "ann", SELF, "friend", 0.5, origin=Origin("own"), now=NOW)
    mine = say(other, "message 1 你好", 1)
    done = exchange.import_lines(other, lines(full))
    assert (done.known["memory_relations"], done.known["memory_relation_changes"]) == (1, 1)
    assert rows(other, "SELECT weight, changes FROM memory_relations") == [(0.5, 1)]
    assert one(other, "SELECT count(*) FROM memory_instances WHERE content = 'message 1 你好'") == 1
    assert one(other, "SELECT count(*) FROM memory_mentions WHERE instance_id = %s", mine.id) == 2


def test_the_totals_are_right_after_every_part_of_an_import(
    full: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_CHUNK", 4)
    exported = lines(full)
    first = next(at for at, line in enumerate(exported) if '"table":"memory_instances"' in line)
    wrong = (
        "SELECT count(*) FROM memory_scopes s WHERE (instances, tokens) <> (SELECT count(*), coalesce(sum(length), 0) "
        "FROM memory_instances i WHERE i.scope_id = s.id) "
        "OR next_seq <= (SELECT max(seq) FROM memory_instances i WHERE i.scope_id = s.id)"
    )
    for end in (first + 2, first + 5, len(exported)):
        exchange.import_lines(other, exported[:end])
        assert one(other, wrong) == 0
    assert one(other, "SELECT sum(instances) FROM memory_scopes") == 9


def test_the_memory_of_one_bot_becomes_anothers_by_name(full: Database, other: Database) -> None:
    exchange.import_lines(other, lines(full), bot="second")
    assert rows(other, "SELECT DISTINCT bot FROM memory_scopes") == [("second",)]


def test_the_memories_of_several_bots_dont_become_one(full: Database, other: Database) -> None:
    say(full, "of another bot", 70, scope=Scope("another", HERE.chat))
    exported = list(exchange.export(full))
    with pytest.raises(exchange.ExchangeError, match="--everyone"):
        exchange.import_lines(other, exported, bot="second")
    exchange.import_lines(other, exported)
    assert rows(other, "SELECT DISTINCT bot FROM memory_scopes ORDER BY bot") == [("another",), ("bot",)]


def test_a_vector_of_an_earlier_model_in_the_recycle_table_is_not_taken_for_the_present_ones(
    full: Database, other: Database
) -> None:
    with full.transaction() as connection:
        connection.execute("UPDATE memory_recycled SET content = jsonb_set(content, '{embedder_id}', '77') "
                           "WHERE content ? 'embedder_id'")  # fmt: skip
    exchange.import_lines(other, lines(full))
    ((batch,),) = rows(other, "SELECT DISTINCT batch FROM memory_recycled")
    with pytest.raises(EmbedderError), other.transaction() as connection:
        forgetting.restore(connection, HERE, batch)


def test_a_row_that_names_a_scope_by_number_is_not_written_there(full: Database, other: Database) -> None:
    say(other, "another bot's", scope=Scope("guest", "qq:1:group:a"))
    with pytest.raises(exchange.ExchangeError, match="names no bot and chat"):
        exchange.import_lines(other, spoiled(lines(full), bot=None, chat=None, id="new", scope_id=1))
    exchange.import_lines(other, spoiled(lines(full), scope_id=1), bot="bot")
    found = rows(other, "SELECT s.bot FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id")
    assert found == [("bot",)]


def test_a_memory_that_another_bot_has_in_the_same_database_is_refused_not_lost(full: Database) -> None:
    with pytest.raises(exchange.ExchangeError, match=r"as that of the bot bot in .*: a database holds it once"):
        exchange.import_lines(full, lines(full), bot="twin")
    assert one(full, "SELECT count(*) FROM memory_topics t JOIN memory_scopes s ON s.id = t.scope_id "
                     "WHERE s.bot = 'twin'") == 0  # fmt: skip


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
        (lambda found: [found[0], "[" * 100_000], "line 2 is no JSON"),
        (lambda found: spoiled(found, vector=5), "line 2 is damaged: its vector"),
        (lambda found: spoiled(found, vector="!!!"), "line 2 is damaged"),
        (lambda found: spoiled(found, vector=packed([float("nan")] * DIMENSION)), "line 2 is damaged: its vector.*NaN"),
        (lambda found: spoiled(found, vector=packed([0.5])), "line 2 is damaged: expected 32 dimensions"),
        (lambda found: spoiled(found, vector=None), "line 2 is damaged"),
        (lambda found: spoiled(found, bot=None), "line 2 is damaged: it names no bot"),
        (lambda found: spoiled(found, chat=5), "line 2 is damaged: it names no bot and chat"),
        (lambda found: spoiled(found, topic_name="a\x00b"), "line 2 is damaged"),
    ],
)
def test_a_damaged_file_names_the_line(full: Database, other: Database, spoil: object, said: str) -> None:
    with pytest.raises(exchange.ExchangeError, match=said):
        exchange.import_lines(other, spoil(lines(full)))  # type: ignore[operator]
