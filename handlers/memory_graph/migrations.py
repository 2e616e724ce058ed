"""The tables of the memory and how they came to be: numbered files in schema/, each applied in its own transaction.

A killed migration is taken up again where it ended. `check` tells tables that are only half there, or newer than this
code, from good ones; it changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ExtensionError, SchemaError

if TYPE_CHECKING:
    import psycopg

MAX_DIMENSION = 2000
"""More numbers per vector than pgvector can index."""
MINIMUM_PGVECTOR = (0, 8)
_FOLDER = Path(__file__).with_name("schema")
_FILE = re.compile(r"(\d{3})_(\w+)\.sql")
_MADE = re.compile(r"^(CREATE|DROP) (?:TABLE|(?:UNIQUE )?INDEX) (\w+)", re.MULTILINE)
_LOCK = 0x6D656D6F7279
"""Held while migrating: several workers start at once."""
_VERSIONS = """
CREATE TABLE IF NOT EXISTS memory_schema (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
"""


@dataclass(frozen=True)
class Migration:
    """One numbered file; makes, drops: the tables and indexes there are after it and not before, and the opposite."""

    version: int
    name: str
    sql: str
    makes: tuple[str, ...]
    drops: tuple[str, ...] = ()


@lru_cache(1)
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in their order."""
    found = []
    for file in sorted(_FOLDER.glob("*.sql")):
        named = _FILE.fullmatch(file.name)
        if named is None:
            raise SchemaError(f"{file.name} is no migration; its name is NNN_what.sql")
        sql = file.read_text("utf-8")
        made, dropped = ([name for what, name in _MADE.findall(sql) if what == which] for which in ("CREATE", "DROP"))
        makes = tuple(name for name in made if name not in dropped)
        drops = tuple(name for name in dropped if name not in made)
        found.append(Migration(int(named[1]), named[2], sql, makes, drops))
    return tuple(found)


def migrate(connection: psycopg.Connection[Any], dimension: int) -> None:
    """Bring the tables up to this version; `dimension`: of the vectors of tables made now.

    The connection is in autocommit mode and its search_path names the schema, which is made if need be. Raises
    `ExtensionError` and `SchemaError`.
    """
    if not 1 <= dimension <= MAX_DIMENSION:
        raise SchemaError(
            f"vectors of {dimension} numbers can't be indexed, at most {MAX_DIMENSION}; ask the embedding model for "
            "fewer dimensions ([models.embedding] in config/lumia.toml), or take another one"
        )
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        _make_extension(connection)
        _make_schema(connection)
        check(connection, unfinished=True)
        connection.execute(_VERSIONS)
    for migration in migrations():
        _apply(connection, migration, dimension)


def check(connection: psycopg.Connection[Any], *, unfinished: bool = False) -> bool:
    """Tell whether the tables are there and of this version; `unfinished`: a migration that may go on is no error.

    Raises `SchemaError` for tables that are half-migrated, damaged, or newer than this code.
    """
    if not _wanted_schema(connection)[1]:
        return False  # what comes later in the search path, public, is another memory
    known = migrations()
    # Looked at before what is noted: tables that somebody makes meanwhile are then noted, too, and no half of anything.
    firsts = [one.makes[0] for one in known if one.makes]
    absent = set(_missing(connection, firsts))
    applied = _applied(connection)
    newest = max(applied, default=0)
    if newest > len(known):
        raise SchemaError(
            f"the memory's tables are of version {newest}, this Lumia knows {len(known)}; run the newer Lumia on all "
            "machines"
        )
    dropped = {name for one in known if one.version in applied for name in one.drops}
    wanted = [name for one in known if one.version in applied for name in one.makes if name not in dropped]
    if missing := _missing(connection, wanted):
        if extension(connection) is None:
            raise ExtensionError(
                "pgvector was removed from the database, and the vectors with it; run CREATE EXTENSION vector there "
                "and restore a dump, or move the memory_* tables away and start with an empty memory"
            )
        raise SchemaError(
            f"the memory's tables are damaged: version {newest} is noted, but {_listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; restore a dump, or move the memory_* tables away and "
            "start with an empty memory"
        )
    strays = [one.makes[0] for one in known if one.version not in applied and one.makes]
    if present := [name for name in strays if name not in absent]:
        raise SchemaError(
            f"the memory's tables are half-migrated: {_listed(present)} is there, but memory_schema doesn't know "
            "of it; move the memory_* tables and topic_edges away, or restore a complete dump"
        )
    if applied and newest < len(known) and not unfinished:
        raise SchemaError(
            f"the memory's tables are half-migrated: {newest} of {len(known)} steps are done; the next start of a "
            "worker finishes them"
        )
    return bool(applied) and newest == len(known)


def _applied(connection: psycopg.Connection[Any]) -> list[int]:
    if _missing(connection, ["memory_schema"]):
        return []
    return [version for (version,) in connection.execute("SELECT version FROM memory_schema ORDER BY version")]


def _missing(connection: psycopg.Connection[Any], names: Sequence[str]) -> list[str]:
    """Return those of `names` that are no relation of the schema we write to."""
    rows = connection.execute(
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = current_schema() AND relname = ANY(%s)",
        (list(names),),
    )
    there = {name for (name,) in rows}
    return [name for name in names if name not in there]


def _apply(connection: psycopg.Connection[Any], migration: Migration, dimension: int) -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if migration.version in _applied(connection):
            return
        connection.execute(migration.sql.replace(":dimension", str(int(dimension))).encode())
        connection.execute(
            "INSERT INTO memory_schema (version, name) VALUES (%s, %s)", (migration.version, migration.name)
        )


def _wanted_schema(connection: psycopg.Connection[Any]) -> tuple[str, bool]:
    """Return the first schema of the search path, which holds the tables, and whether it is there."""
    row = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchone()
    assert row is not None
    first = row[1].split(",")[0].strip().strip('"')
    return first, row[0] == first


def _make_schema(connection: psycopg.Connection[Any]) -> None:
    """Make the first schema of the search path when it isn't there."""
    import psycopg
    from psycopg import sql

    first, there = _wanted_schema(connection)
    if there:
        return
    try:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(first)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"this account may not create the schema {first}; let its owner run CREATE SCHEMA {first}, or grant CREATE"
        ) from error


def _make_extension(connection: psycopg.Connection[Any]) -> None:
    import psycopg

    version = extension(connection)
    way_out = "install pgvector 0.8 or newer on the server, then let a superuser run CREATE EXTENSION vector"
    try:
        if version is None:
            connection.execute("CREATE EXTENSION vector SCHEMA public")
        elif version < MINIMUM_PGVECTOR:
            connection.execute("ALTER EXTENSION vector UPDATE")
    except psycopg.errors.InsufficientPrivilege as error:
        raise ExtensionError(f"this account may not install pgvector in the database; {way_out}") from error
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise ExtensionError(f"the database server has no pgvector; {way_out}") from error
    version = extension(connection)
    if version is None or version < MINIMUM_PGVECTOR:
        shown = ".".join(map(str, version or ()))
        raise ExtensionError(f"pgvector {shown} is too old; {way_out}, or ALTER EXTENSION vector UPDATE")


def extension(connection: psycopg.Connection[Any]) -> tuple[int, ...] | None:
    """Return the version of pgvector in this database, None when it isn't installed."""
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return tuple(int(part) for part in row[0].split(".")) if row else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
