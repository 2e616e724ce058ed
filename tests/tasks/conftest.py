"""A broker of its own for every test here that kills or empties it; the test module's `root` says which bot it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.ports import Limits
from lumia.runtime import Runtime
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.workers import opened


@pytest.fixture
def transport(valkey_server: servers.Server) -> Iterator[RedisTransport]:
    """A transport on the session's Valkey, emptied, that no worker serves."""
    redis = connect(valkey_server.url)
    redis.flushdb()
    found = RedisTransport(redis, worker="host:1:aa", limits=Limits(batch=16))
    yield found
    found.close()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with servers.valkey(tmp_path / "valkey") as server:
        yield server.url


@pytest.fixture
def bot(root: Path, url: str) -> Iterator[Runtime]:
    with opened(root, url) as runtime:
        yield runtime
