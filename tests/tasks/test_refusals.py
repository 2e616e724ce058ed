"""A Redis that is there, and refuses or stays silent: what it is called, and how long it is waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lumia.errors import BackendForbiddenError, BackendSilentError, BackendUnavailableError
from lumia.ports import Limits
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.wait import until
from tests.tasks.test_scripts import claimed, done, popped, request

OPEN = ("~*", "&*", "+@all")
CONTRACT = Path(__file__).parents[2] / "docs" / "redis.md"


@contextmanager
def as_user(server: servers.Server, *rules: str, password: str = "pw") -> Iterator[RedisTransport]:
    """A transport whose user has just these rules."""
    admin: Any = connect(server.url)
    admin.execute_command("ACL", "SETUSER", "bot", "reset", "on", ">pw", *rules)
    admin.close()
    url = f"redis://bot:{password}@127.0.0.1:{server.port}/0"
    found = RedisTransport(connect(url, timeout=1.0), worker="host:1:aa", limits=Limits())
    yield found
    found.close()


def use(transport: RedisTransport) -> None:
    """A script, a command and a channel."""
    run = transport.start([request()])[0].run_id
    transport.routes()
    transport.wait(run, 0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[servers.Server]:
    with servers.valkey(tmp_path / "valkey") as found:
        yield found


@pytest.mark.parametrize(
    "rules, why, rule",
    [
        ((*OPEN, "-evalsha"), "'evalsha' command", "the rule +evalsha to its ACL"),
        ((*OPEN, "-@scripting"), "'evalsha' command", "the rule +evalsha to its ACL"),
        ((*OPEN, "-zadd"), "zadd", "the rule +zadd to its ACL"),
        (
            ("~other:*", "&*", "+@all"),
            "access a key",
            "the rule ~lumia:* ~_kombu* ~*celery* ~unacked* and a pattern",
        ),
        ((*OPEN, "-hmget"), "'hmget' command", "the rule +hmget to its ACL"),
        (("~*", "resetchannels", "+@all"), "channel", "the rule &* to its ACL"),
    ],
)
def test_what_an_acl_forbids_is_named_with_the_rule_to_add(
    server: servers.Server, rules: tuple[str, ...], why: str, rule: str
) -> None:
    with as_user(server, *rules) as transport, pytest.raises(BackendForbiddenError) as told:
        use(transport)
    assert why in str(told.value) and rule in str(told.value)
    assert "docs/redis.md" in str(told.value)


def test_a_refused_login_is_told_as_such(server: servers.Server) -> None:
    with as_user(server, *OPEN, password="wrong") as transport, pytest.raises(BackendForbiddenError) as told:
        transport.routes()
    assert "refuses the login" in str(told.value) and "LUMIA_REDIS_URL" in str(told.value)


def test_a_replica_that_has_lost_its_primary_is_away(server: servers.Server) -> None:
    transport = RedisTransport(connect(server.url, timeout=1.0), worker="host:1:aa", limits=Limits())
    redis: Any = transport.redis
    redis.config_set("replica-serve-stale-data", "no")
    redis.replicaof("127.0.0.1", 1)
    for ask in (transport.routes, lambda: transport.start([request()])):
        with pytest.raises(BackendUnavailableError, match="MASTER is down") as told:
            ask()
        assert "at the primary" in str(told.value)
    transport.close()


def test_what_is_claimed_is_taken_up_although_redis_was_away_right_after(
    server: servers.Server, caplog: pytest.LogCaptureFixture
) -> None:
    admin: Any = connect(server.url)
    with as_user(server, *OPEN) as transport:
        transport.start([request()])
        message = popped(transport)
        all_but_plans = ("resetkeys", "~lumia:[^p]*", "~lumia:p[^l]*", "~default*")
        admin.execute_command("ACL", "SETUSER", "bot", *all_but_plans)
        with ThreadPoolExecutor(1) as thread:
            claiming = thread.submit(transport.claim, *message)
            until(lambda: "plan is tried again" in caplog.text)
            admin.execute_command("ACL", "SETUSER", "bot", "~*")
            claim = claiming.result(10)
        assert claim is not None and claim.attempt == 1
        transport.commit(claim, done(claim, "end"))
    admin.close()


def test_the_rules_that_the_documentation_gives_are_enough_for_a_message(server: servers.Server) -> None:
    line = next(line for line in CONTRACT.read_text("utf-8").splitlines() if line.startswith("user lumia on "))
    rules = line.replace(">PASSWORD", ">pw").split()[3:]
    with as_user(server, *rules) as transport:
        run = transport.start([request()])[0].run_id
        claim = claimed(transport)
        transport.commit(claim, done(claim, "end"))
        assert transport.wait(run, 1.0).outcome == "done"
        transport.write([])
        assert transport.read("x") == ("none", None)
        assert transport.health().ok
        assert transport.deployments().look().number == 0
        assert not transport.lanes().lanes
        assert transport.queues() == []


@pytest.mark.parametrize("known", [True, False], ids=["connected before", "connected after"])
def test_a_server_that_stays_silent_is_waited_for_briefly(server: servers.Server, known: bool) -> None:
    transport = RedisTransport(connect(server.url, timeout=0.5), worker="host:1:aa", limits=Limits())
    if known:
        transport.start([request()])
        transport.routes()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for ask in (transport.routes, lambda: transport.start([request()])):
            began = time.monotonic()
            with pytest.raises(BackendSilentError, match="does not answer in time"):
                ask()
            assert time.monotonic() - began < 5 * 0.5 + 1
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert transport.start([request()])[0].run_id
    transport.close()
