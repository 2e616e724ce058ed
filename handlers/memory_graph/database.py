"""Connections to the memory's database: made when first needed, per process, with errors that tell the way out."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import lumia

from . import migrations
from .embedders import ACTIVE, claim_active, is_active, stored
from .errors import DatabaseAwayError, EmbedderError, ExtensionError, MemoryUnavailableError, ReadOnlyError, SchemaError
from .types import Calibration
from .watchdog import Watchdog

if TYPE_CHECKING:
    import psycopg

LIMIT_SECONDS = 15.0
"""What one transaction may take; a database that is frozen must not freeze its caller."""
_CONNECT_SECONDS = 3
_MIGRATION_SECONDS = 1800.0
"""A step may build an index anew."""
_IDLE_SECONDS = 5.0
"""A connection unused for longer is asked whether it still lives."""
_AWAY_SECONDS = 2.0
"""A database that can't be reached is not asked again for so long: nobody waits for the same time-out in turn."""
_KEPT = 16
_SECOND = 4
"""So many second connections (`Database.beside`) at once: a server has only so many for all its clients."""
_OPTIONS = "-c jit=off -c hnsw.iterative_scan=strict_order -c hnsw.ef_search=140"
"""Settings of every session, so that no recall has to send them (`candidates`)."""
_watchdog = Watchdog()
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Database:
    """The memory's database as one process uses it; safe in threads, and after a fork.

    url: libpq URL, "" when there is none. schema: holds the tables, made if need be. model, dimension, calibration: of
    the embedder whose vectors are stored; model "" takes the one that is there, for work that compares no vectors.
    Nothing is opened before `transaction` is entered.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        dimension: int,
        calibration: Calibration | None = None,
        schema: str = "public",
        limit: float = LIMIT_SECONDS,
    ) -> None:
        if not _NAME.fullmatch(schema):
            raise SchemaError(f"{schema!r} can't be a schema's name here: a-z, 0-9 and _, at most 63")
        self.url, self.schema, self.limit = url, schema, limit
        self.model, self.dimension, self.calibration = model, dimension, calibration or Calibration()
        self._lock = threading.Lock()
        self._migrating = threading.Lock()
        self._idle: list[tuple[psycopg.Connection[Any], float]] = []
        self._pid = os.getpid()
        self._second = threading.BoundedSemaphore(_SECOND)
        self._ready = False
        self._embedder = 0
        self._away: tuple[float, MemoryUnavailableError] | None = None

    @property
    def embedder_id(self) -> int:
        """Return the number of the embedder in `memory_embedders`; known once a transaction was entered."""
        return self._embedder

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection inside a transaction, which is committed at the end of the block and rolled back on errors.

        Raises `MemoryUnavailableError`: `DatabaseAwayError`, `ReadOnlyError`, `ExtensionError`, `SchemaError` or
        `EmbedderError`. Errors of the block that are no database errors pass through.
        """
        import psycopg

        connection = self._taken()
        try:
            with _limited(connection, self.limit), connection.transaction():
                yield connection
        except (psycopg.Error, EmbedderError) as error:
            problem = explained(error)
            if isinstance(problem, (EmbedderError, SchemaError)):
                self._ready = False  # somebody changed the tables: the next use looks at them again
                self.close()
                with suppress(Exception):
                    connection.close()
            if problem is error:
                raise
            raise problem from error
        finally:
            self._given_back(connection)

    @contextmanager
    def comparing(self) -> Iterator[psycopg.Connection[Any]]:
        """Give what `transaction` gives, to compare a vector of this model with those stored.

        Raises `EmbedderError` when another model has taken its place since: with as many numbers nothing else tells.
        """
        with self.transaction() as connection:
            if not is_active(connection, self._embedder):
                raise EmbedderError(
                    "the memory's vectors are another embedder's now; restart the worker with the configured embedder"
                )
            yield connection

    @contextmanager
    def beside(self) -> Iterator[psycopg.Connection[Any] | None]:
        """Give a second connection, in autocommit mode, for what may be asked while the first one's statements run.

        None when enough are lent already, or none is to be had: then one after the other has to do.
        """
        second = self._second
        connection = self._another() if second.acquire(blocking=False) else None
        if connection is None:
            yield None
            return
        try:
            with _limited(connection, self.limit):
                yield connection
        finally:
            self._given_back(connection)
            second.release()

    def _another(self) -> psycopg.Connection[Any] | None:
        try:
            return self._taken()
        except MemoryUnavailableError:
            self._second.release()
            return None

    def prepare(self) -> None:
        """Make the tables if need be and check them; raises what `transaction` raises."""
        with self.transaction():
            pass

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection in autocommit mode, neither limited nor checked: for long work such as a rebuild.

        Raises `DatabaseAwayError`, and `ExtensionError` when the tables were made and pgvector was removed since.
        """
        import psycopg

        if not self.url:
            raise DatabaseAwayError(
                "the memory has no database: start one with `lumia up`, or set LUMIA_DATABASE_URL to a PostgreSQL "
                "15 or newer with pgvector"
            )
        if self._away is not None and lumia.system.monotonic() < self._away[0]:
            raise self._away[1]
        try:
            connection = psycopg.connect(**self._options())
        except (psycopg.Error, OSError) as error:
            problem = explained(error)
            self._away = lumia.system.monotonic() + _AWAY_SECONDS, problem
            raise problem from error
        self._away = None
        return connection

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            with suppress(Exception):
                connection.close()

    def _options(self) -> dict[str, Any]:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        try:
            given = conninfo_to_dict(self.url)
        except psycopg.Error:
            raise DatabaseAwayError(
                # What libpq says quotes the text, password and all.
                "LUMIA_DATABASE_URL is no database URL; it looks like postgresql://user:password@host:5432/name"
            ) from None
        path = "public" if self.schema == "public" else f"{self.schema},public"
        own = f"-c search_path={path} -c statement_timeout={int(self.limit * 1000)} {_OPTIONS}"
        defaults: dict[str, Any] = {
            "connect_timeout": _CONNECT_SECONDS,
            "application_name": "lumia-memory",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        }
        options = f"{given.pop('options', '')} {own}".strip()
        return {**defaults, **given, "options": options, "autocommit": True}

    def _taken(self) -> psycopg.Connection[Any]:
        import psycopg

        self._forget_after_fork()
        while (kept := self._pop()) is not None:
            connection, since = kept
            if _lives(connection, since):
                return connection
        connection = self.connect()
        try:
            self._make_ready(connection)
            with _limited(connection, self.limit):
                register(connection)
        except BaseException as error:
            with suppress(Exception):
                connection.close()
            if isinstance(error, (psycopg.Error, OSError)):
                raise explained(error) from error
            raise
        return connection

    def _make_ready(self, connection: psycopg.Connection[Any]) -> None:
        with self._migrating:
            if self._ready:
                return
            with _limited(connection, self.limit):
                complete = migrations.check(connection, unfinished=True)
            if not self.model:
                with _limited(connection, self.limit):
                    self._adopt(connection, complete=complete)
            else:
                if not complete:
                    with _limited(connection, _MIGRATION_SECONDS):
                        migrations.migrate(connection, self.dimension)
                with _limited(connection, self.limit), connection.transaction():
                    self._embedder = claim_active(connection, self.model, self.dimension, self.calibration)
            self._ready = True

    def _adopt(self, connection: psycopg.Connection[Any], *, complete: bool) -> None:
        active = next((one for one in stored(connection) if one.state == ACTIVE), None) if complete else None
        if active is None:
            raise SchemaError("the memory's tables are not there yet; the first message makes them")
        self.model, self.dimension, self._embedder = active.model, active.dimension, active.id

    def _pop(self) -> tuple[psycopg.Connection[Any], float] | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _given_back(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            if not connection.closed and not connection.broken and len(self._idle) < _KEPT:
                self._idle.append((connection, lumia.system.monotonic()))
                return
        with suppress(Exception):
            connection.close()

    def _forget_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._lock, self._migrating = os.getpid(), threading.Lock(), threading.Lock()
            self._second = threading.BoundedSemaphore(_SECOND)
            self._idle = []  # the parent's: closing them here would end its sessions


def explained(error: BaseException) -> MemoryUnavailableError:
    """Return what a database's error means for the memory, and the way out."""
    from psycopg import errors

    line = _line(error)
    if isinstance(error, MemoryUnavailableError):
        return error
    if isinstance(error, (errors.ReadOnlySqlTransaction, errors.DiskFull)):
        return ReadOnlyError(
            f"the memory's database takes no writes: {line}; point LUMIA_DATABASE_URL at the primary, or free its disk"
        )
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedColumn)):
        return SchemaError(
            f"the memory's tables are damaged: {line}; restart the worker, and if that doesn't help restore a dump"
        )
    if (isinstance(error, errors.UndefinedObject) and "vector" in line) or "vector type not found" in line:
        return ExtensionError(f"pgvector is gone from the database: {line}; run CREATE EXTENSION vector there")
    if isinstance(error, errors.InsufficientPrivilege):
        return SchemaError(
            f"this account may not do that in the memory's database: {line}; grant it CREATE and USAGE on the schema"
        )
    if "dimensions" in line or (isinstance(error, errors.NotNullViolation) and "embedder_id" in line):
        return EmbedderError(
            f"the memory's vectors are another embedder's now ({line}); restart the worker with the configured "
            "embedder, or run `lumia memory rebuild`"
        )
    if isinstance(error, errors.DataException):
        return SchemaError(f"the memory's database refuses a value: {line}; run `lumia doctor`")
    return DatabaseAwayError(
        f"the memory's database does not answer: {line}; see `lumia status`, or correct LUMIA_DATABASE_URL"
    )


def register(connection: psycopg.Connection[Any]) -> None:
    """Teach a connection to take arrays as vectors, and to give them."""
    from pgvector.psycopg import register_vector

    register_vector(connection)


def _lives(connection: psycopg.Connection[Any], since: float) -> bool:
    if connection.closed or connection.broken:
        return False
    if lumia.system.monotonic() - since < _IDLE_SECONDS:
        return True
    with suppress(Exception), _limited(connection, 2.0):
        connection.execute("SELECT 1")
        return True
    with suppress(Exception):
        connection.close()
    return False


def _limited(connection: psycopg.Connection[Any], seconds: float) -> AbstractContextManager[None]:
    """Break the connection when this takes longer: a frozen server keeps no statement timeout of its own."""
    return _watchdog.limited(connection.fileno(), seconds + 1.0)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
