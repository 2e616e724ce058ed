"""A real Valkey with a journal in it, a real Postgres with an empty archive, and archivers over both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lumia.ports import Limits
from tasks.archive.archiver import Archiver
from tasks.archive.place import Place
from tasks.archive.settings import ArchiveSettings
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport, connect

MakeArchiver = Callable[..., Archiver]


@pytest.fixture
def transport(valkey_url: str) -> Iterator[RedisTransport]:
    found = RedisTransport(connect(valkey_url), worker="host:1:aa", limits=Limits())
    found.call("heartbeat", found.worker, 2500)
    yield found
    found.close()


@pytest.fixture
def stream(transport: RedisTransport) -> Stream:
    return Stream(transport)


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """A Postgres without any archive."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS lumia CASCADE")
    return postgres_url


@pytest.fixture
def archiver(valkey_url: str, database_url: str, tmp_path: Path) -> Iterator[MakeArchiver]:
    """Make an archiver, a worker's of its own: `archiver(url="", max_bytes=…)`."""
    made: list[Archiver] = []

    def make(url: str | None = None, worker: str = "host:2:bb", limits: Limits | None = None, **more: Any) -> Archiver:
        transport = RedisTransport(connect(valkey_url), worker=worker, limits=limits)
        place = Place(tmp_path / "journal", database_url if url is None else url)
        made.append(Archiver(Stream(transport), place, ArchiveSettings(**{"hot": 0.0, "compact_after": 0.0, **more})))
        return made[-1]

    yield make
    for one in made:
        one.close()
