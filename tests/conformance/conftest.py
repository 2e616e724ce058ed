"""One bot per transport: in memory with threads, and a real `celery -A tasks worker` on a real Valkey."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.inmemory import InMemoryTransport
from lumia.journal import JournalEntry
from lumia.opening import limits_of, load_plugins
from lumia.runs import RunResult
from lumia.runtime import Runtime, open_bot
from tests.support import servers
from tests.support.workers import bot_root, connected, worker

PROBE = Path(__file__).parent / "plugins" / "probe"


@dataclass
class Probe:
    """A bot with the probe plugin, and a scope of its own for every test."""

    runtime: Runtime
    scope: str = field(default_factory=lambda: uuid.uuid4().hex)

    def content(self, **values: Any) -> lumia.Box[Any]:
        return lumia.Box.any({"scope": self.scope, **values})

    def pipe(self, id: str, *, options: dict[str, Any] | None = None, **values: Any) -> RunResult:
        return self.wait(lumia.pipe.start(id, self.content(**values), **(options or {})))

    def event(self, id: str, **values: Any) -> RunResult:
        return self.wait(lumia.event.start(id, self.content(**values)))

    def wait(self, run_id: str, timeout: float = 20.0) -> RunResult:
        return lumia.runs.wait(run_id, timeout)

    def result(self, run_id: str) -> RunResult:
        found = lumia.runs.result(run_id)
        assert found is not None
        return found

    @property
    def seen(self) -> list[list[Any]]:
        return lumia.store.of("probe").items("seen", scope=self.scope)

    def journal(self, run_id: str) -> list[JournalEntry]:
        found, after = [], "0"
        while entries := lumia.runs.tail(after, timeout=0, limit=1000):
            found += [entry for entry in entries if run_id in (entry.run_id, entry.root_id)]
            after = entries[-1].cursor
        return found


@pytest.fixture(scope="session")
def memory_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    transport = InMemoryTransport()
    runtime = open_bot(bot_root(tmp_path_factory.mktemp("memory") / "bot", PROBE), transport=transport).deactivate()
    assert runtime.config is not None
    transport.limits = runtime.limits = limits_of(runtime.config)
    with runtime.activated():
        plugins = load_plugins(runtime, "all")
        assert not plugins.failures, plugins.failures
        runtime.use_routes(transport.publish(runtime.install(plugins)))
    transport.serve(runtime, threads=4)
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def celery_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    root = bot_root(tmp_path_factory.mktemp("celery") / "bot", PROBE)
    with (
        servers.valkey(tmp_path_factory.mktemp("conformance")) as server,
        worker(root, server.url),
        connected(root, server.url) as runtime,
    ):
        yield runtime


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A file that is not there: a step of "lane" whose content has it as `until` goes on when the test touches it."""
    path = tmp_path / "gate"
    yield path
    path.touch()


@pytest.fixture(params=["memory", "celery"])
def bot(request: pytest.FixtureRequest) -> Iterator[Probe]:
    runtime = request.getfixturevalue(f"{request.param}_runtime")
    with runtime.activated():
        yield Probe(runtime)
