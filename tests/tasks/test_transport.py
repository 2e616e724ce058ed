"""The Redis transport while Redis is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumia.errors import BackendUnavailableError
from lumia.ports import Limits
from tasks import transport as module
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.wait import until
from tests.tasks.test_scripts import claimed, done, request


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.05)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[tuple[RedisTransport, servers.Server, Path]]:
    """A transport, the server it speaks to, and the folder that brings this server back."""
    folder = tmp_path / "valkey"
    with servers.valkey(folder) as server:
        found = RedisTransport(connect(server.url, timeout=1.0), worker="host:1:aa", limits=Limits())
        yield found, server, folder
        found.close()


def test_a_commit_waits_for_redis_to_come_back(away: tuple[RedisTransport, servers.Server, Path]) -> None:
    transport, server, folder = away
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    transport.redis.shutdown(save=True)
    until(lambda: not transport.health().ok)
    thread = threading.Thread(target=transport.commit, args=(claim, done(claim, "end")))
    thread.start()
    with servers.valkey(folder, port=server.port):
        thread.join(20)
        record = transport.run(run)
        assert record is not None and (record.outcome, len(record.steps)) == ("done", 1)


@pytest.mark.usefixtures("impatient")
def test_a_commit_that_can_not_be_sent_says_so_in_the_end(
    away: tuple[RedisTransport, servers.Server, Path],
) -> None:
    transport, _, _ = away
    transport.start([request()])
    claim = claimed(transport)
    transport.redis.shutdown(nosave=True)
    with pytest.raises(BackendUnavailableError):
        transport.commit(claim, done(claim, "end"))


def test_waiting_for_a_run_without_redis_does_not_say_that_it_takes_too_long(
    away: tuple[RedisTransport, servers.Server, Path],
) -> None:
    transport, _, _ = away
    run = transport.start([request(delay=3600)])[0].run_id
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            transport.wait(run, 60)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: transport.redis.pubsub_numsub("lumia:done")[0][1] == 1)
    transport.redis.shutdown(nosave=True)
    thread.join(20)
    assert [type(error) for error in ended] == [BackendUnavailableError]
