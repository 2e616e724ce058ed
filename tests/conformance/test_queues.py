"""Queues that a start names, and that a process serves beside its other work; leases. On every transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia import revival
from lumia.dead import DeadFilter
from lumia.errors import ArcError, PayloadError
from lumia.lookup import Lookup
from lumia.replay import Replayer, recorded
from lumia.routes import Plan
from lumia.runtime import Runtime, open_bot
from tasks.backend import worker_name
from tasks.transport import RedisTransport, connect
from tests.conformance.conftest import Probe
from tests.support.wait import until


@pytest.fixture(scope="module")
def gateway_of(celery_runtime: Runtime, memory_runtime: Runtime) -> Iterator[Callable[[Runtime], Runtime]]:
    """Give what a gateway is to a bot: a runtime with the plugins loaded; in memory it is the one there is."""
    assert isinstance(celery_runtime.transport, RedisTransport)
    url = celery_runtime.transport.url
    transport = RedisTransport(connect(url), worker=worker_name(), url=url)
    found = open_bot(celery_runtime.root, load="all", transport=transport).deactivate()
    yield lambda runtime: memory_runtime if runtime is memory_runtime else found
    found.close()


@pytest.fixture
def host(bot: Probe, gateway_of: Callable[[Runtime], Runtime]) -> Runtime:
    return gateway_of(bot.runtime)


@pytest.fixture
def queue(bot: Probe, host: Runtime) -> str:
    """An account's queue that was served, and is not now."""
    name = lumia.adapters.queue("probe", bot.scope)
    with serving(host, name):
        assert bot.wait(lumia.pipe.start("order", bot.content(), queue=name)).outcome == "done"
    return name


@contextmanager
def serving(host: Runtime, queue: str) -> Iterator[None]:
    host.embedding.add(queue)
    try:
        yield
    finally:
        host.embedding.leave(queue)


def workers(bot: Probe, run_id: str) -> set[str]:
    return {entry.worker for entry in bot.journal(run_id) if entry.kind == "step"}


def backlog(bot: Probe, queue: str) -> int:
    return next((one.waiting for one in bot.runtime.transport.backlog("adapter.") if one.name == queue), 0)


def test_a_run_on_a_queue_nobody_has_heard_of_is_executed_by_the_workers_and_says_so(bot: Probe) -> None:
    name = f"fresh-{bot.scope}"
    result = bot.pipe("order", options={"queue": name})
    assert result.outcome == "done" and len(result.steps) == 4
    start = next(entry for entry in bot.journal(result.run_id) if entry.kind == "start")
    assert start.detail["queue"] == name
    lookup = Lookup(bot.runtime.transport.history(), bot.runtime.transport)
    assert until(lambda: lookup.trace(lookup.one(result.run_id))).run.queue == name


def test_the_steps_of_an_accounts_queue_wait_until_it_is_served_and_are_done_there(
    bot: Probe, host: Runtime, queue: str
) -> None:
    runs = [lumia.pipe.start("order", bot.content(), queue=queue) for _ in range(3)]
    until(lambda: backlog(bot, queue) == 3)
    assert bot.pipe("order").outcome == "done"  # the others don't wait
    with serving(host, queue), serving(host, queue):
        assert {bot.wait(run).outcome for run in runs} == {"done"}
    assert backlog(bot, queue) == 0
    assert {worker for run in runs for worker in workers(bot, run)} == {host.worker}


def test_a_child_goes_to_the_queue_its_start_names_and_the_tree_waits_for_it(
    bot: Probe, host: Runtime, queue: str, memory_runtime: Runtime
) -> None:
    run = lumia.pipe.start("dispatching", bot.content(queue=queue), key=f"dispatching {bot.scope}")
    until(lambda: backlog(bot, queue) == 1)
    with serving(host, queue):
        assert bot.wait(run).outcome == "done"
    assert bot.seen[-2:] == [["one"], ["two"]]
    child = bot.result(run).steps[1:]
    assert [step.handler for step in child] == ["probe.dispatched", "probe.dispatched_too"]
    until(lambda: sum(entry.kind == "end" for entry in bot.journal(run)) == 2)
    (tree,) = recorded(bot.runtime.transport.history().entries(run))
    assert [one.queue for one in tree.caused_by(run, 0)] == [queue]
    code = Replayer(memory_runtime, memory_runtime.install(memory_runtime.plugins))  # type: ignore[arg-type]
    (done,) = code.replay_all([tree])
    assert (done.differences, done.skipped, done.steps) == ([], "", 3)


def test_a_retry_stays_on_the_queue(bot: Probe, host: Runtime, queue: str, tmp_path: Path) -> None:
    content = bot.content(file=str(tmp_path / "tries"))
    run = lumia.event.start("news.flaky", content, queue=queue)
    with serving(host, queue):
        assert bot.wait(run).outcome == "done"
    assert ["at last"] in bot.seen and workers(bot, run) == {host.worker}


def test_the_retry_of_a_dead_letter_stays_on_the_queue(bot: Probe, host: Runtime, queue: str, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    with serving(host, queue):
        dead = bot.wait(lumia.pipe.start("mendable", bot.content(mended=str(mended)), queue=queue))
    assert dead.outcome == "failed"
    (letter,) = bot.runtime.transport.dead(DeadFilter(letters=(dead.run_id,)))
    assert {step.queue for step in Plan.parse(letter.plan).steps} == {queue}
    mended.touch()
    again = revival.retry(bot.runtime, letter)
    until(lambda: backlog(bot, queue) == 1)
    with serving(host, queue):
        assert bot.wait(again).outcome == "done"
    assert workers(bot, again) == {host.worker}


def test_a_run_that_waited_longer_than_its_sender_allows_is_dropped(bot: Probe, host: Runtime, queue: str) -> None:
    before = len(bot.seen)
    run = lumia.pipe.start("order", bot.content(), queue=queue, max_age=0.05)
    age = until(lambda: next((one.oldest for one in bot.runtime.transport.backlog(queue) if one.oldest > 0.1), 0.0))
    assert age > 0.1
    with serving(host, queue):
        ended = bot.wait(run)
    assert (ended.outcome, ended.reason.partition(":")[0]) == ("stopped", "stale")
    assert len(bot.seen) == before


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "x" * 600, 3])
def test_a_queue_has_to_have_a_name(bot: Probe, name: Any) -> None:
    with pytest.raises(PayloadError, match="queue"):
        lumia.pipe.start("order", bot.content(), queue=name)


def test_a_step_that_needs_a_process_of_its_own_can_not_go_to_an_accounts_queue(bot: Probe) -> None:
    with pytest.raises(PayloadError, match="hard"):
        lumia.event.start("hard", bot.content(), queue=lumia.adapters.queue("probe", "x"))


def test_a_live_resource_stays_where_it_is(bot: Probe, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(ArcError):
        lumia.pipe.start("order", lumia.Box.any(file), queue="elsewhere")


def test_a_lease_is_one_holders_until_it_is_given_back_or_its_time_is_over(bot: Probe) -> None:
    lease, name = bot.runtime.transport.lease, f"lease {bot.scope}"
    first = lease(name, "a", 30.0)
    assert first > 0 and lease(name, "a", 30.0) == first
    assert lease(name, "b", 30.0) == 0 and lease(name, "b", 0) == 0
    assert lease(name, "a", 0) == 0
    second = lease(name, "b", 0.1)
    assert second > first
    third = until(lambda: lease(name, "a", 30.0))
    assert third > second and lease(name, "b", 30.0) == 0
