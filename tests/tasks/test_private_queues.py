"""Queues of accounts as operators see them, and leases, on a real Valkey and on the fake Redis."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from lumia.errors import BackendUnavailableError
from lumia.marks import Retry
from lumia.paths import base
from lumia.ports import Limits, RunRequest
from lumia.routes import Plan, PlanStep, Route, RouteTable
from lumia.system import new_id
from lumia.testing import fake_redis
from tasks import private_queues
from tasks.supervise.check_accounts import check_accounts
from tasks.supervise.check_queues import check_queues
from tasks.supervise.resp import connect as ask
from tasks.transport import RedisTransport, connect
from tests.support.wait import until

QUEUE = "adapter.onebot.1%3A2"
PLAN = Plan.of([PlanStep("p.send", "consumer", "g1", QUEUE, None, False, Retry())])


@pytest.fixture(scope="module", params=["valkey", "fakeredis"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "valkey":
        yield request.getfixturevalue("valkey_server").url
        return
    with fake_redis() as found:
        yield found


@pytest.fixture
def transport(url: str) -> Iterator[RedisTransport]:
    redis = connect(url)
    redis.flushdb()
    found = RedisTransport(redis, worker="host:1:aa", limits=Limits())
    yield found
    found.close()


def start(transport: RedisTransport, *, priority: int = 3) -> None:
    run = new_id()
    transport.start([RunRequest(run, "event", "p.send", PLAN, '{"j":1}', root_id=run, priority=priority)])


def test_what_waits_in_a_queue_is_told_with_its_age_and_who_serves_it(transport: RedisTransport) -> None:
    start(transport)
    start(transport, priority=0)
    (queue,) = transport.backlog("adapter.")
    assert (queue.name, queue.waiting, queue.served) == (QUEUE, 2, ())
    assert until(lambda: transport.backlog("adapter.")[0].oldest) > 0
    transport.tell_served({QUEUE, "adapter.onebot.3"})
    assert [(one.name, one.served) for one in transport.backlog("adapter.")] == [
        (QUEUE, ("host:1:aa",)), ("adapter.onebot.3", ("host:1:aa",)),
    ]  # fmt: skip
    transport.tell_served(set(), gone={QUEUE, "adapter.onebot.3"})
    assert {one.served for one in transport.backlog("adapter.")} == {()}
    assert transport.backlog("adapter.telegram.") == []


def test_who_has_not_told_for_a_while_serves_nothing(
    transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport.tell_served({QUEUE})
    monkeypatch.setattr(private_queues, "FRESH_SECONDS", 0.0)
    until(lambda: transport.backlog(QUEUE)[0].served == ())


def test_the_doctor_names_accounts_whose_steps_wait_for_nobody(url: str, transport: RedisTransport) -> None:
    with ask(url) as redis:
        assert list(check_accounts(redis)) == []
        start(transport)
        (found,) = check_accounts(redis)
        assert found.message == "account 1:2 of onebot: 1 waiting to be sent, and no gateway has its connection"
        transport.tell_served({QUEUE})
        assert list(check_accounts(redis)) == []


def test_a_lease_has_one_holder_and_every_new_one_a_higher_number(transport: RedisTransport) -> None:
    first = transport.lease("telegram/main", "host:1:aa:1 with spaces", 30.0)
    assert first == transport.lease("telegram/main", "host:1:aa:1 with spaces", 30.0) > 0
    assert transport.lease("telegram/main", "b", 30.0) == 0
    assert transport.lease("telegram/main", "b", 0) == 0
    assert transport.lease("telegram/other", "b", 30.0) > first
    transport.lease("telegram/main", "host:1:aa:1 with spaces", 0)
    assert transport.lease("telegram/main", "b", 0.05) > first
    assert until(lambda: transport.lease("telegram/main", "c", 30.0))


def test_a_lease_of_a_broker_that_is_not_there_is_told_at_once() -> None:
    transport = RedisTransport(connect("redis://127.0.0.1:1/0"), worker="host:1:aa")
    with pytest.raises(BackendUnavailableError, match="telegram/main"):
        transport.lease("telegram/main", "a", 8.0)
    transport.close()


def test_a_process_that_serves_no_account_loads_no_celery() -> None:
    code = "import sys, tasks.backend, lumia.adapters; print([m for m in ('celery', 'kombu') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=base())
    assert done.stdout.strip() == "[]"


def test_an_alarm_is_raised_and_ended(transport: RedisTransport) -> None:
    transport.alarm("resident p.polls", "p.polls fails", "see the log")
    assert transport.health().counters["alarms"] == 1
    transport.alarm("resident p.polls", "", "")
    assert transport.health().counters["alarms"] == 0


def route(handler: str, queue: str, *, hard: bool = False) -> Route:
    plugin = handler.partition(".")[0].replace("_", "-")
    return Route("consumer", "x", handler, plugin, queue=queue, timeout=5.0, hard=hard)


def test_the_doctor_names_queues_that_no_worker_serves_and_how_to_serve_them(
    url: str, transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = (
        route("rss_feeds.read", "plugin.rss-feeds"),
        route("a.draw", "heavy", hard=True),
        route("b.say", "celery"),
    )
    transport.publish(RouteTable(0, routes, (), {}))
    with ask(url) as redis:
        assert list(check_queues(redis)) == [], "while no worker runs, and nothing waits"
        transport.tell_shared("host:1:bb", {"celery"})
        heavy, isolated = check_queues(redis)
        assert heavy.message == "no worker serves the queue heavy (a): nothing waits in it yet"
        assert heavy.fix.startswith("lumia worker add --queues heavy --pool prefork")
        assert isolated.message == "no worker serves the queue plugin.rss-feeds (rss-feeds): nothing waits in it yet"
        assert isolated.fix.startswith("lumia isolated rss-feeds")
        monkeypatch.setattr(private_queues, "TELL_SECONDS", 0.0)
        transport.tell_shared("host:1:bb", {"celery", "heavy", "plugin.rss-feeds"})
        assert list(check_queues(redis)) == []
