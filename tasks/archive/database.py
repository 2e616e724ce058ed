"""The archive in Postgres: writing batches, reading runs and entries, forgetting what is old."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from lumia.errors import BackendUnavailableError
from lumia.history import Tally, tallied
from lumia.journal import JournalEntry
from tasks.archive import schema
from tasks.archive.records import RUN_COLUMNS, entry_of, readable, record, run_row, tally_of
from tasks.archive.rows import StreamRow, position

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
log = logging.getLogger("lumia")
LIMIT_SECONDS = 10.0
"""What one question or batch may take; a database that is frozen must not freeze its caller."""
_CONNECT_SECONDS = 3
_LOCK = 0x6C756D6962
"""One writer at a time: a run's line is made of all its entries, so nobody may add one unseen."""
_STAGE = """
CREATE TEMP TABLE IF NOT EXISTS lumia_entries (LIKE lumia.entries) ON COMMIT DELETE ROWS;
CREATE TEMP TABLE IF NOT EXISTS lumia_runs (LIKE lumia.runs) ON COMMIT DELETE ROWS
"""
_TAKE_ENTRIES = """
INSERT INTO lumia.entries SELECT * FROM lumia_entries ORDER BY ms, number, part ON CONFLICT DO NOTHING
RETURNING ms, number, part
"""
_KNOWN = f"SELECT {', '.join(RUN_COLUMNS)}, sums FROM lumia.runs WHERE run_id = ANY(%s)"
ENTRY = """
SELECT e.ms, e.number, e.part, e.kind, e.run_id, e.root_id, e.body, e.box, r.id, r.key
FROM lumia.entries e LEFT JOIN lumia.runs r USING (run_id)
"""
_WHOLE = f"{ENTRY} WHERE e.root_id = ANY(%s) AND e.run_id = ANY(%s) ORDER BY e.ms, e.number, e.part"
_TAKE_RUNS = f"""
INSERT INTO lumia.runs SELECT * FROM lumia_runs ORDER BY run_id ON CONFLICT (run_id) DO UPDATE SET
{", ".join(f"{name} = excluded.{name}" for name in (*RUN_COLUMNS[1:], "sums"))},
message = coalesce(nullif(excluded.message, ''), runs.message)
"""
_FORGET_ENTRIES = """
DELETE FROM lumia.entries WHERE (ms, number, part) IN (
    SELECT ms, number, part FROM lumia.entries WHERE ms < %s ORDER BY ms, number, part LIMIT %s
    FOR UPDATE SKIP LOCKED)
"""
_FORGET_RUNS = """
DELETE FROM lumia.runs WHERE run_id IN (
    SELECT run_id FROM lumia.runs r WHERE started < %s
    AND NOT EXISTS (SELECT FROM lumia.entries e WHERE e.root_id = r.root_id)
    ORDER BY started LIMIT %s FOR UPDATE SKIP LOCKED)
"""


class RefusedError(BackendUnavailableError):
    """The database takes no entry like this one, today or ever."""


class Database:
    """One connection to the archive's database, made when it is first needed and again after it broke.

    Every method raises `BackendUnavailableError` when the database does not answer in time or refuses.
    """

    def __init__(self, url: str, *, limit: float = LIMIT_SECONDS) -> None:
        self._url = url
        self._limit = limit
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None

    def write(self, rows: Sequence[StreamRow]) -> int:
        """Keep the rows; returns how many entries were new. The same rows again change nothing."""
        entries = readable(rows)
        if not entries:
            return 0
        try:
            return self._do(lambda connection: _written(connection, entries))
        except RefusedError as error:
            if len(rows) == 1:
                log.error("journal entry %s can't be archived and is left out: %s", rows[0].cursor, error)
                return 0
        half = len(rows) // 2
        return self.write(rows[:half]) + self.write(rows[half:])

    def forget(self, before: float, batch: int = 2000) -> int:
        """Delete at most `batch` entries, and runs, of before a moment; returns how many are gone."""
        ms = int(before * 1000)

        def deleted(connection: Any) -> int:
            entries = connection.execute(_FORGET_ENTRIES, (ms, batch)).rowcount
            if entries:
                return int(entries)
            return int(connection.execute(_FORGET_RUNS, (ms, batch)).rowcount)

        return self._do(deleted)

    def rows(self, query: str, values: Sequence[Any] | dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a query as dicts."""
        return self._do(lambda connection: _dicts(connection.execute(query, values)))

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._drop()

    def _do(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        import psycopg

        with self._lock:
            try:
                connection = self._connected()
                with _limited(connection, self._limit), connection.transaction():
                    return work(connection)
            except (psycopg.DataError, psycopg.IntegrityError) as error:
                raise RefusedError(f"the journal's database refuses it: {_line(error)}") from error
            except (psycopg.Error, OSError) as error:
                self._drop()
                raise BackendUnavailableError(f"the journal's database does not answer: {_line(error)}") from error
            except BaseException:
                self._drop()
                raise

    def _connected(self) -> psycopg.Connection[Any]:
        import psycopg

        if self._connection is None:
            milliseconds = int(self._limit * 1000)
            options: dict[str, Any] = {
                "connect_timeout": _CONNECT_SECONDS,
                "application_name": "lumia-journal",
                "options": f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
            }
            if "connect_timeout=" in self._url:
                del options["connect_timeout"]
            self._connection = psycopg.connect(self._url, autocommit=True, **options)
            with _limited(self._connection, self._limit):
                schema.migrate(self._connection)
                self._connection.execute(_STAGE)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def _written(connection: Any, entries: Sequence[tuple[JournalEntry, int, str]]) -> int:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    _copied(connection, "lumia_entries", (record(*one) for one in entries))
    added = set(connection.execute(_TAKE_ENTRIES).fetchall())
    if added:
        placed = {(*position(entry.cursor), part): entry for entry, part, _ in entries}
        tallies = _tallied(connection, [entry for place, entry in placed.items() if place in added])
        _copied(connection, "lumia_runs", map(run_row, tallies.values()))
        connection.execute(_TAKE_RUNS)
    return len(added)


def _tallied(connection: Any, added: Sequence[JournalEntry]) -> dict[str, Tally]:
    """Return the sums of the runs that entries were added to: what was known of each, and these."""
    known = _dicts(connection.execute(_KNOWN, (list({entry.run_id for entry in added}),)))
    before = {row["run_id"]: tally_of(row) for row in known if row["sums"] is not None}
    found = tallied(added, before)
    old = {row["run_id"]: row["root_id"] for row in known if row["sums"] is None}
    if old:  # lines of before there were sums: made from all the entries, once
        whole = _dicts(connection.execute(_WHOLE, (list(set(old.values())), list(old))))
        found |= tallied(entry_of(row) for row in whole)
    return found


def _copied(connection: Any, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _dicts(cursor: Any) -> list[dict[str, Any]]:
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@contextmanager
def _limited(connection: Any, seconds: float) -> Iterator[None]:
    """Break the connection when this takes longer: a frozen server answers no statement timeout of its own."""
    handle = socket.socket(fileno=os.dup(connection.fileno()))

    def cut() -> None:
        with suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds + 1.0, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        handle.close()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
