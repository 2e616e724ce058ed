"""The tables of the archive in Postgres, and how they came to be; the choices are explained in docs/archive.md."""

from __future__ import annotations

from typing import Any

from lumia.errors import BackendUnavailableError

VERSION_TABLE = """
CREATE SCHEMA IF NOT EXISTS lumia;
CREATE TABLE IF NOT EXISTS lumia.schema_version (
    part text PRIMARY KEY, version int NOT NULL, migrated timestamptz NOT NULL DEFAULT now());
"""
_LOCK = 0x6C756D6961
"""Held while migrating: several workers start at once."""

MIGRATIONS = (
    # 1: entries in journal order, and one line per run kept up to date with them
    """
    CREATE TABLE lumia.entries (
        ms bigint NOT NULL, number bigint NOT NULL, part smallint NOT NULL,
        kind text NOT NULL, run_id text COLLATE "C" NOT NULL, root_id text COLLATE "C" NOT NULL,
        body text NOT NULL, box text,
        PRIMARY KEY (ms, number, part));
    CREATE INDEX entries_root ON lumia.entries (root_id);
    CREATE TABLE lumia.runs (
        run_id text COLLATE "C" PRIMARY KEY, root_id text COLLATE "C" NOT NULL,
        flow text NOT NULL, id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, cause text NOT NULL,
        outcome text NOT NULL, reason text NOT NULL, started bigint NOT NULL, ended bigint NOT NULL,
        steps int NOT NULL, attempts int NOT NULL, tokens_in bigint NOT NULL, tokens_out bigint NOT NULL,
        cost float8 NOT NULL, dead boolean NOT NULL, message text NOT NULL)
        WITH (fillfactor = 90);
    CREATE INDEX runs_started ON lumia.runs (started, run_id);
    CREATE INDEX runs_id ON lumia.runs (id, started);
    CREATE INDEX runs_key ON lumia.runs (key, started) WHERE key <> '';
    CREATE INDEX runs_below ON lumia.runs (root_id) WHERE root_id <> run_id;
    CREATE INDEX runs_message ON lumia.runs (message) WHERE message <> '';
    CREATE INDEX runs_dead ON lumia.runs (started) WHERE dead;
    CREATE INDEX runs_running ON lumia.runs (started) WHERE ended = 0;
    CREATE INDEX runs_troubled ON lumia.runs (outcome, started) WHERE outcome NOT IN ('done', 'stopped');
    """,
    # 2: what a run's line is summed up from, so that an entry is added without reading those before it again
    "ALTER TABLE lumia.runs ADD COLUMN sums text",
)


def migrate(connection: Any) -> None:
    """Bring the tables up to this version; raises `BackendUnavailableError` when they are newer than this code."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(VERSION_TABLE)
        row = connection.execute("SELECT version FROM lumia.schema_version WHERE part = 'journal'").fetchone()
        there = row[0] if row else 0
        if there > len(MIGRATIONS):
            raise BackendUnavailableError(
                f"the journal's tables in the database are of version {there}, this Lumia knows {len(MIGRATIONS)}; "
                "run the newer Lumia on all machines"
            )
        for statement in MIGRATIONS[there:]:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO lumia.schema_version (part, version) VALUES ('journal', %s) ON CONFLICT (part) DO UPDATE "
            "SET version = excluded.version, migrated = now() WHERE schema_version.version <> excluded.version",
            (len(MIGRATIONS),),
        )
