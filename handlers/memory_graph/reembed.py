"""Changing the embedder: every text is embedded anew beside its old vector, then both change places at once.

While it goes on the bot reads and writes with the old model; what it writes is picked up. It can be killed at any time
and goes on where it was. Every column of type vector whose comment says `embeds COLUMN` takes part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .embedders import ACTIVE, NEXT, as_json, stored
from .errors import EmbedderError
from .migrations import MAX_DIMENSION

if TYPE_CHECKING:
    import psycopg
    from numpy.typing import NDArray

    from .database import Database
    from .types import Embedder

log = logging.getLogger("lumia.memory")
BATCH = 32
_STRAGGLERS = 200
"""Texts that may be left for the moment in which nobody else may write."""
_LOCK = 0x6D656D6F7280
_LOCK_WAIT_MS = 500
_COLUMNS = """
SELECT c.relname, a.attname, substr(col_description(c.oid, a.attnum), 8)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relnamespace = current_schema()::regnamespace AND t.typname = 'vector' AND NOT a.attisdropped
    AND c.relkind = 'r' AND col_description(c.oid, a.attnum) LIKE 'embeds %' ORDER BY c.relname
"""
_INDEXES = """
SELECT c.relname, i.indisvalid, array_to_string(c.reloptions, ', '), pg_get_expr(i.indpred, i.indrelid)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = %s::regclass AND a.attname = %s
"""


@dataclass(frozen=True)
class Progress:
    """How far it is: texts embedded with the new model, of all."""

    done: int
    total: int


@dataclass(frozen=True)
class _Column:
    """A column of vectors: its table, its name, and the column it embeds."""

    table: str
    name: str
    text: str

    @property
    def next(self) -> str:
        return f"{self.name}_next"


def rebuild(database: Database, embedder: Embedder, *, batch: int = BATCH) -> Generator[Progress, None, None]:
    """Embed everything with `embedder` and make it the active one; yields after every batch.

    `database` may be one for the old or the new model. A run that was ended goes on when it is called again; one for
    a third model takes its place. Raises `EmbedderError`, and what `Database.transaction` raises.
    """
    import psycopg

    from .database import explained, register

    connection = database.connect()
    try:
        register(connection)
        connection.execute("SET statement_timeout = 0")
        if not _alone(connection):
            raise EmbedderError("another process is changing the embedder now; wait for it to end, or end it first")
        columns = _begin(connection, embedder)
        total, done = _count(connection, columns, "true"), _count(connection, columns, "NOT missing")
        yield Progress(done, total)
        for column in columns:
            while written := _step(connection, column, embedder.passages, batch):
                done += written
                yield Progress(min(done, max(total, done)), max(total, done))
        _index(connection, columns)
        while not _swapped(connection, columns, embedder, batch):
            yield Progress(done, max(total, done))
        yield Progress(max(total, done), max(total, done))
    except psycopg.Error as error:
        raise explained(error) from error
    finally:
        connection.close()


def progress(connection: psycopg.Connection[Any]) -> tuple[str, Progress] | None:
    """Return the model of a change that has begun and how far it is, None when there is none."""
    following = next((one for one in stored(connection) if one.state == NEXT), None)
    if following is None:
        return None
    columns = [one for one in _columns(connection) if _exists(connection, one.table, one.next)]
    found = Progress(_count(connection, columns, "NOT missing"), _count(connection, columns, "true"))
    return following.model, found


def abandon(connection: psycopg.Connection[Any]) -> None:
    """Give up a change that has begun; what was embedded for it is thrown away."""
    columns = _columns(connection)

    def drop() -> bool:
        connection.execute("DELETE FROM memory_embedders WHERE state = 'next'")
        for column in columns:
            _drop_next(connection, column)
        return True

    while not _alone_with(connection, columns, drop):
        pass


def _alone(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
    return bool(row and row[0])


def _begin(connection: psycopg.Connection[Any], embedder: Embedder) -> list[_Column]:
    if not 1 <= embedder.dimension <= MAX_DIMENSION:
        raise EmbedderError(
            f"{embedder.model} makes vectors of {embedder.dimension} numbers, at most {MAX_DIMENSION} can be indexed; "
            "ask it for fewer dimensions, or take another model"
        )
    following = next((one for one in stored(connection) if one.state == NEXT), None)
    if following is not None and (following.model, following.dimension) != (embedder.model, embedder.dimension):
        log.info("the change to %s is given up for one to %s", following.model, embedder.model)
        abandon(connection)
    with connection.transaction():
        connection.execute(
            "INSERT INTO memory_embedders (model, dimension, state, calibration) VALUES (%s, %s, 'next', %s) "
            "ON CONFLICT (model, dimension) DO UPDATE SET calibration = excluded.calibration, "
            "state = CASE memory_embedders.state WHEN 'retired' THEN 'next' ELSE memory_embedders.state END",
            (embedder.model, embedder.dimension, as_json(embedder.calibration)),
        )
    present = [(one.model, one.dimension) for one in stored(connection) if one.state == ACTIVE]
    if (embedder.model, embedder.dimension) in present:
        return []
    columns = _columns(connection)

    def add() -> bool:
        for column in columns:
            _add_next(connection, column, embedder.dimension)
        return True

    while not _alone_with(connection, columns, add):
        pass
    return columns


def _columns(connection: psycopg.Connection[Any]) -> list[_Column]:
    return [_Column(*row) for row in connection.execute(_COLUMNS)]


def _exists(connection: psycopg.Connection[Any], table: str, column: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s AND NOT attisdropped",
        (table, column),
    ).fetchone()
    return row is not None


def _add_next(connection: psycopg.Connection[Any], column: _Column, dimension: int) -> None:
    """Add the new column, and a trigger that empties it when its text changes."""
    table, name = column.table, f"{column.table}_reworded"
    connection.execute(
        f"""ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column.next} vector({int(dimension)});
        ALTER TABLE {table} ALTER COLUMN {column.next} SET STORAGE MAIN;
        CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.{column.text} IS DISTINCT FROM OLD.{column.text} THEN NEW.{column.next} := NULL; END IF;
            RETURN NEW; END $$;
        CREATE OR REPLACE TRIGGER {name} BEFORE UPDATE OF {column.text} ON {table}
            FOR EACH ROW EXECUTE FUNCTION {name}()""".encode()
    )


def _drop_next(connection: psycopg.Connection[Any], column: _Column) -> None:
    name = f"{column.table}_reworded"
    connection.execute(
        f"""ALTER TABLE {column.table} DROP COLUMN IF EXISTS {column.next};
        DROP TRIGGER IF EXISTS {name} ON {column.table}; DROP FUNCTION IF EXISTS {name}()""".encode()
    )


def _count(connection: psycopg.Connection[Any], columns: Sequence[_Column], which: str) -> int:
    found = 0
    for column in columns:
        row = connection.execute(
            f"SELECT count(*) FROM {column.table} WHERE {which.replace('missing', f'{column.next} IS NULL')}".encode()
        ).fetchone()
        found += row[0] if row else 0
    return found


def _step(
    connection: psycopg.Connection[Any],
    column: _Column,
    passages: Callable[[Sequence[str]], NDArray[Any]],
    batch: int,
) -> int:
    """Embed some texts that have no new vector; returns how many."""
    rows = connection.execute(
        f"SELECT id, {column.text} FROM {column.table} WHERE {column.next} IS NULL LIMIT {int(batch)}".encode()
    ).fetchall()
    if not rows:
        return 0
    vectors = list(passages([text for _, text in rows]))
    connection.execute(
        f"UPDATE {column.table} t SET {column.next} = w.vector "
        f"FROM unnest(%s::text[], %s::text[], %b::vector[]) AS w (id, text, vector) "
        f"WHERE t.id::text = w.id AND t.{column.text} = w.text".encode(),
        ([str(id) for id, _ in rows], [text for _, text in rows], vectors),
    )
    return len(rows)


def _index(connection: psycopg.Connection[Any], columns: Sequence[_Column]) -> None:
    """Build the indexes of the new columns while others read and write."""
    for column in columns:
        options = _options(connection, column)
        if options is None:
            continue
        name = f"{column.table}_{column.next}"
        found = connection.execute(_INDEXES, (column.table, column.next)).fetchall()
        if any(valid for _, valid, *_ in found):
            continue
        for broken, *_ in found:
            connection.execute(f"DROP INDEX {broken}".encode())
        connection.execute(
            f"CREATE INDEX CONCURRENTLY {name} ON {column.table} USING hnsw ({column.next} vector_cosine_ops) "
            f"WITH {options}".encode()
        )


def _options(connection: psycopg.Connection[Any], column: _Column) -> str | None:
    """Return the options of the present index of a column and which rows it holds, None when it has none."""
    row = connection.execute(_INDEXES, (column.table, column.name)).fetchone()
    if row is None:
        return None
    _, _, options, which = row
    return f"({options or 'm=16'})" + (f" WHERE {which}" if which else "")


def _swapped(
    connection: psycopg.Connection[Any], columns: Sequence[_Column], embedder: Embedder, batch: int
) -> bool:  # fmt: skip
    """Put the new columns in the place of the old; False when there was too much left to embed first, or no lock."""
    for column in columns:
        while _step(connection, column, embedder.passages, batch):
            pass
    return not columns or _alone_with(connection, columns, lambda: _swap(connection, columns, embedder, batch))


def _alone_with(connection: psycopg.Connection[Any], columns: Sequence[_Column], change: Callable[[], bool]) -> bool:
    """Return what `change` gives, made while nobody else uses the tables; False when somebody uses them for long."""
    from psycopg import errors

    tables = ", ".join(one.table for one in columns)
    try:
        with connection.transaction():
            # Whoever reads or writes meanwhile queues behind this wait: it is short, and ends before the server looks
            # for deadlocks, whose victim could be a reader.
            connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT_MS}ms'")
            connection.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE".encode())
            return change()
    except (errors.LockNotAvailable, errors.DeadlockDetected):
        connection.execute("SELECT pg_sleep(0.5)")
        return False


def _swap(connection: psycopg.Connection[Any], columns: Sequence[_Column], embedder: Embedder, batch: int) -> bool:
    if _count(connection, columns, "missing") > _STRAGGLERS:
        return False
    for column in columns:
        while _step(connection, column, embedder.passages, batch):
            pass
    row = connection.execute("SELECT id FROM memory_embedders WHERE state = 'next'").fetchone()
    if row is None:
        raise EmbedderError("the change of the embedder was given up by another process; begin it again")
    for column in columns:
        _replace(connection, column, row[0])
    connection.execute("UPDATE memory_embedders SET state = 'retired' WHERE state = 'active'")
    connection.execute("UPDATE memory_embedders SET state = 'active' WHERE state = 'next'")
    return True


def _replace(connection: psycopg.Connection[Any], column: _Column, embedder_id: int) -> None:
    table, old, new = column.table, column.name, column.next
    index = connection.execute(_INDEXES, (table, old)).fetchone()
    made = connection.execute(_INDEXES, (table, new)).fetchone()
    _drop_trigger(connection, table)
    connection.execute(
        f"""ALTER TABLE {table} ALTER COLUMN {new} SET NOT NULL;
        ALTER TABLE {table} DROP COLUMN {old};
        ALTER TABLE {table} RENAME COLUMN {new} TO {old};
        COMMENT ON COLUMN {table}.{old} IS 'embeds {column.text}'""".encode()
    )
    if index and made:
        connection.execute(f"ALTER INDEX {made[0]} RENAME TO {index[0]}".encode())
    _number(connection, table, embedder_id)


def _drop_trigger(connection: psycopg.Connection[Any], table: str) -> None:
    name = f"{table}_reworded"
    connection.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}; DROP FUNCTION IF EXISTS {name}()".encode())


def _number(connection: psycopg.Connection[Any], table: str, embedder_id: int) -> None:
    """Give every row the number of the new embedder, by a new column with a default: that rewrites no row."""
    connection.execute(
        f"""ALTER TABLE {table} DROP COLUMN embedder_id;
        ALTER TABLE {table} ADD COLUMN embedder_id smallint NOT NULL DEFAULT {int(embedder_id)}
            REFERENCES memory_embedders (id);
        ALTER TABLE {table} ALTER COLUMN embedder_id DROP DEFAULT""".encode()
    )
