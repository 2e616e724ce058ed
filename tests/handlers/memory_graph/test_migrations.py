"""Making the tables: resumable, in many processes at once, and half-made ones are told from good ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest

from handlers.memory_graph import migrations
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import SchemaError
from tests.handlers.memory_graph.samples import DIMENSION, MODEL, one, rows, say

pytestmark = pytest.mark.services

SPECIFIED = {
    "memory_topics": {
        "id": "text", "topic_name": "text", "topic_embedding": f"vector({DIMENSION})", "strength": "double precision",
        "decay_rate": "double precision", "half_life_days": "double precision", "access_count": "integer",
        "last_accessed": "timestamp with time zone", "created_at": "timestamp with time zone", "metadata": "jsonb",
    },
    "memory_instances": {
        "id": "text", "topic_id": "text", "content": "text", "content_embedding": f"vector({DIMENSION})",
        "relevance_score": "double precision", "importance": "double precision",
        "created_at": "timestamp with time zone", "last_accessed": "timestamp with time zone", "metadata": "jsonb",
    },
    "topic_edges": {
        "id": "text", "from_topic": "text", "to_topic": "text", "weight": "double precision", "edge_type": "text",
        "activation_count": "integer", "last_activated": "timestamp with time zone", "decay_rate": "double precision",
    },
}  # fmt: skip
"""Spec §11.2."""
DEFAULTS = {
    ("memory_topics", "strength"): "1.0", ("memory_topics", "decay_rate"): "0.1",
    ("memory_topics", "half_life_days"): "7.0", ("memory_topics", "access_count"): "0",
    ("memory_instances", "relevance_score"): "1.0", ("memory_instances", "importance"): "0.5",
    ("topic_edges", "weight"): "1.0", ("topic_edges", "edge_type"): "'semantic'::text",
    ("topic_edges", "decay_rate"): "0.05",
}  # fmt: skip


def raw(database: Database, statement: str) -> None:
    with psycopg.connect(database.url, autocommit=True, options=f"-c search_path={database.schema},public") as found:
        found.execute(statement.encode())


def fresh(database: Database) -> Database:
    return Database(database.url, model=MODEL, dimension=DIMENSION, schema=database.schema)


@pytest.mark.parametrize("table", SPECIFIED)
def test_the_tables_have_the_columns_of_the_specification(database: Database, table: str) -> None:
    found = rows(
        database,
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a "
        "LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) "
        "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped",
        table,
    )
    assert SPECIFIED[table].items() <= {name: shown for name, shown, _ in found}.items()
    defaults = {(table, name): default for name, _, default in found if (table, name) in DEFAULTS}
    assert defaults == {key: value for key, value in DEFAULTS.items() if key[0] == table}


def test_both_vector_indexes_are_those_of_the_specification(database: Database) -> None:
    found = rows(
        database,
        "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexdef LIKE '%%hnsw%%' "
        "AND tablename IN ('memory_topics', 'memory_instances')",
    )
    assert len(found) == 2
    assert all("vector_cosine_ops" in shown and "m='16', ef_construction='64'" in shown for (shown,) in found)


def test_migrating_again_changes_nothing(database: Database) -> None:
    database.prepare()
    before = rows(database, "SELECT * FROM memory_schema ORDER BY version")
    again = fresh(database)
    again.prepare()
    assert rows(again, "SELECT * FROM memory_schema ORDER BY version") == before
    again.close()
    assert [row[0] for row in before] == [one.version for one in migrations.migrations()]


def test_a_migration_that_was_killed_goes_on_where_it_was(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    done: list[int] = []
    apply = migrations._apply

    def killed(connection: object, migration: migrations.Migration, dimension: int) -> None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(migration.version)
        apply(connection, migration, dimension)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "_apply", killed)
        with pytest.raises(KeyboardInterrupt):
            database.prepare()
    with database.connect() as connection, pytest.raises(SchemaError, match=r"half-migrated: 2 of \d+ steps"):
        migrations.check(connection)
    assert say(database, "hello").outcome == "new"
    with database.connect() as connection:
        assert migrations.check(connection)


@pytest.mark.parametrize("version", [one.version for one in migrations.migrations()])
def test_tables_of_every_earlier_version_are_brought_up_to_date(
    database: Database, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    known = migrations.migrations()
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "migrations", lambda: known[:version])
        old = fresh(database)
        old.prepare()
        old.close()
    assert say(database, "hello", topics=[("tea", 1.0)]).outcome == "new"
    with database.connect() as connection:
        assert migrations.check(connection)


def test_topics_that_were_there_enter_the_vector_index_when_they_are_named_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations.migrations()
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "migrations", lambda: known[:6])
        old = fresh(database)
        for number, topics in enumerate([("tea", "Ann"), ("tea", "Bob")]):
            say(old, f"text {number}", number, topics=[(name, 1.0) for name in topics])
        old.close()
    established = "SELECT topic_name FROM memory_topics WHERE established ORDER BY topic_name"
    assert rows(database, established) == [("tea",)]
    say(database, "text 3", 3, topics=[("Bob", 1.0)])
    assert rows(database, established) == [("Bob",), ("tea",)]
    assert "WHERE established" in one(database, "SELECT pg_get_indexdef('memory_topics_embedding'::regclass)")


@pytest.mark.parametrize("what", ["TABLE memory_terms", "INDEX memory_instances_embedding", "TABLE memory_scopes"])
def test_tables_that_are_missing_later_are_named(database: Database, what: str) -> None:
    database.prepare()
    raw(database, f"DROP {what} CASCADE")
    with pytest.raises(SchemaError, match=rf"damaged.*{what.split()[1]}.*restore a dump"):
        fresh(database).prepare()


def test_tables_that_nobody_noted_are_named(database: Database) -> None:
    database.prepare()
    raw(database, "DROP TABLE memory_schema")
    with pytest.raises(SchemaError, match=r"half-migrated: .*memory_embedders.* move the memory_"):
        fresh(database).prepare()


def test_tables_of_a_newer_lumia_are_left_alone(database: Database) -> None:
    database.prepare()
    raw(database, "INSERT INTO memory_schema (version, name) VALUES (99, 'future')")
    with pytest.raises(SchemaError, match=r"version 99.*newer Lumia"):
        fresh(database).prepare()


def test_a_table_that_goes_while_the_bot_runs_is_told(database: Database) -> None:
    say(database, "hello")
    raw(database, "DROP TABLE memory_terms")
    with pytest.raises(SchemaError, match="damaged"):
        say(database, "more", 2)


def test_tables_that_are_made_while_another_looks_are_not_taken_for_half_of_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = migrations._applied

    def then_made(connection: Any) -> list[int]:
        found = looked(connection)
        monkeypatch.undo()
        database.prepare()
        return found

    raw(database, f"CREATE SCHEMA {database.schema}")
    monkeypatch.setattr(migrations, "_applied", then_made)
    other = Database(database.url, model=MODEL, dimension=DIMENSION, schema=database.schema)
    other.prepare()
    assert other.embedder_id == database.embedder_id
    other.close()


def test_processes_that_start_at_once_make_the_tables_together(database: Database) -> None:
    code = (
        "from handlers.memory_graph.database import Database\n"
        f"database = Database({database.url!r}, model={MODEL!r}, dimension={DIMENSION}, schema={database.schema!r})\n"
        "database.prepare()\nprint(database.embedder_id)"
    )
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    ended = [(process.communicate()[0].strip(), process.returncode) for process in running]
    assert ended == [("1", 0)] * 6
    assert one(database, "SELECT count(*) FROM memory_embedders") == 1


def test_two_memories_in_one_database_know_nothing_of_each_other(database: Database) -> None:
    other = Database(database.url, model="another", dimension=8, schema=f"{database.schema}_b")
    say(database, "hello")
    other.prepare()
    assert one(other, "SELECT count(*) FROM memory_instances") == 0
    raw(other, f"DROP SCHEMA {other.schema} CASCADE")
    other.close()
