"""Fixtures of the whole suite: real servers, started once and only when a test asks for one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.supervise.resp import connect
from tests.support import compiled, servers


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of a run in several processes: the project is compiled before, each rewrites its share of the test files."""
    config = session.config
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        compiled.rewrite(compiled.test_files()[number::count], config)
    elif config.getoption("numprocesses", None):
        compiled.product()


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """One Valkey for the session; tests that kill or pause it start their own with `servers.valkey`."""
    with servers.valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def valkey_url(valkey_server: servers.Server) -> str:
    """The URL of a real, empty Valkey."""
    with connect(valkey_server.url) as redis:
        redis.ask("FLUSHALL")
    return valkey_server.url


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """One Postgres with pgvector for the session."""
    with servers.postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: servers.Server) -> str:
    """The URL of a real Postgres; a test makes a schema of its own in it."""
    return postgres_server.url


@pytest.fixture
def bot_root(tmp_path: Path) -> Path:
    """An empty bot root."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "lumia.toml").write_text("", encoding="utf-8")
    return tmp_path
