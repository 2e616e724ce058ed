"""What `lumia doctor` says about the memory: it asks the database, starts no model and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import lumia

from . import embedders, migrations, reembed
from .database import Database, explained
from .engine import NAME
from .errors import MemoryUnavailableError

if TYPE_CHECKING:
    import psycopg

ROLE = "embedding"


def examine() -> Iterator[lumia.checks.Finding]:
    """Yield what is found out about the memory's database."""
    config = lumia.config.get(NAME)
    if not config.enabled:
        yield lumia.checks.ok("switched off ([enabled] in config/memory-graph.toml)")
        return
    url = lumia.system.database_url()
    if not url:
        yield lumia.checks.ok("its database starts with `lumia up`")
        return
    try:
        yield from _database(Database(url, model="", dimension=1, schema=config.schema, limit=5.0))
    except MemoryUnavailableError as error:
        what, _, way_out = str(error).rpartition("; ")
        yield lumia.checks.risk(
            f"messages are answered without memory: {what or error}", way_out or "see docs/memory.md"
        )


def _database(database: Database) -> Iterator[lumia.checks.Finding]:
    import psycopg

    with closing(database.connect()) as connection:
        try:
            read_only = connection.execute("SHOW transaction_read_only").fetchone()
            if read_only and read_only[0] == "on":
                yield lumia.checks.risk(
                    "the database is read-only: nothing new is remembered", "point LUMIA_DATABASE_URL at the primary"
                )
            version = migrations.extension(connection)
            if version is not None and version < migrations.MINIMUM_PGVECTOR:
                shown = ".".join(map(str, version))
                yield lumia.checks.risk(
                    f"pgvector {shown} is too old", "ALTER EXTENSION vector UPDATE, to 0.8 or newer"
                )
            if not migrations.check(connection):
                yield _to_be_made(connection, version)
                return
            yield from _contents(connection)
        except psycopg.Error as error:
            raise explained(error) from error


def _to_be_made(connection: psycopg.Connection[Any], extension: tuple[int, ...] | None) -> lumia.checks.Finding:
    """Tell whether the first message can make the tables."""
    offered = connection.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if extension is None and offered is None:
        return lumia.checks.risk(
            "messages are answered without memory: the database server has no pgvector",
            "install pgvector 0.8 or newer there, or take the database of `lumia up`",
        )
    if extension is None and not _may_install(connection):
        return lumia.checks.risk(
            "messages are answered without memory: this account may not install pgvector in the database",
            "let a superuser run CREATE EXTENSION vector there",
        )
    return lumia.checks.ok("its tables are made by the first message")


def _may_install(connection: psycopg.Connection[Any]) -> bool:
    """Tell whether CREATE EXTENSION is allowed: to a superuser, or with CREATE where the extension is trusted."""
    row = connection.execute(
        "SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) "
        "OR (has_database_privilege(current_database(), 'CREATE') AND EXISTS (SELECT FROM "
        "pg_available_extension_versions WHERE name = 'vector' AND trusted))"
    ).fetchone()
    return bool(row and row[0])


def _contents(found: psycopg.Connection[Any]) -> Iterator[lumia.checks.Finding]:
    active = next((one for one in embedders.stored(found) if one.state == embedders.ACTIVE), None)
    if active is None:
        yield lumia.checks.ok("empty, and ready for the first message")
        return
    role = next((one.model for one in lumia.models.describe() if one.role == ROLE), active.model)
    count = sum(number for (number,) in found.execute("SELECT instances FROM memory_scopes"))
    shown = f"{count} instances, vectors of {active.model} ({active.dimension} numbers)"
    if role != active.model:
        yield lumia.checks.risk(
            f"{shown}, but the configured embedder is {role}: nothing is recalled, and what is said waits",
            "lumia memory rebuild",
        )
    else:
        yield lumia.checks.ok(shown)
    if (change := reembed.progress(found)) is not None:
        model, progress = change
        yield lumia.checks.risk(
            f"a change to {model} is not finished: {progress.done} of {progress.total}",
            "lumia memory rebuild goes on with it, lumia memory rebuild --abandon gives it up",
        )
