"""Finished runs shrink once they are archived, and still tell what they came to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lumia.dead import DeadLetter
from lumia.journal import JournalEntry
from lumia.ports import EffectRecord, EffectUse, RunRecord
from tasks.archive.place import Place
from tasks.archive.reader import ArchiveHistory
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport
from tests.tasks.archive.bot import WIRE, done, drive, finished
from tests.tasks.archive.conftest import MakeArchiver
from tests.tasks.test_scripts import claimed, request


@pytest.fixture
def asking(transport: RedisTransport, database_url: str, tmp_path: Any) -> RedisTransport:
    """The transport, with the archive to ask."""
    transport.archive = ArchiveHistory(Place(tmp_path / "journal", database_url))
    return transport


def record(transport: RedisTransport, run: str) -> RunRecord:
    found = transport.run(run)
    assert found is not None
    return found


def test_a_reduced_run_tells_the_same_as_before(asking: RedisTransport, archiver: MakeArchiver) -> None:
    run = finished(asking, steps=3, key="web:a:group-1")
    before = record(asking, run)
    drive(archiver())
    assert asking.redis.exists(f"lumia:b:{run}") == 0
    assert asking.redis.hget(f"lumia:r:{run}", "S1") is None
    assert record(asking, run) == before
    assert asking.wait(run, 1.0).outcome == "done"


def test_a_tree_is_reduced_when_all_of_it_has_finished(asking: RedisTransport, archiver: MakeArchiver) -> None:
    parent = asking.start([request()])[0].run_id
    claim = claimed(asking)
    child = replace(request(parent=parent, attached=True), root_id=parent)
    asking.commit(claim, done(claim, "end", children=(child,)))
    one = archiver()
    drive(one)
    assert record(asking, parent).state == "ended" and asking.redis.exists(f"lumia:b:{parent}") == 1
    claim = claimed(asking)
    asking.commit(claim, done(claim, "end"))
    drive(one)
    for run in (parent, child.run_id):
        assert asking.redis.exists(f"lumia:b:{run}") == 0 and record(asking, run).finished
    assert record(asking, parent).children == (child.run_id,)


def test_a_run_is_left_alone_for_a_while_after_its_end(transport: RedisTransport, archiver: MakeArchiver) -> None:
    run = finished(transport)
    drive(archiver(compact_after=3600.0))
    assert transport.redis.exists(f"lumia:b:{run}") == 1


def test_a_second_start_of_a_reduced_run_finds_it(transport: RedisTransport, archiver: MakeArchiver) -> None:
    run = finished(transport, dedup="message 7")
    drive(archiver())
    assert transport.start([request(dedup="message 7")])[0].run_id == run
    assert transport.start([request(run)])[0].run_id == run and record(transport, run).finished


def test_a_reduced_run_is_forgotten_when_its_time_is_over(transport: RedisTransport, archiver: MakeArchiver) -> None:
    run = finished(transport)
    drive(archiver())
    assert 0 < transport.redis.pttl(f"lumia:r:{run}") <= transport.limits.keep_runs * 1000


@pytest.mark.parametrize("dead", [False, True])
def test_effects_are_dropped_unless_a_dead_letter_needs_them(
    transport: RedisTransport, archiver: MakeArchiver, dead: bool
) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    entry = JournalEntry("effect", run, run)
    use = EffectUse(run, "0:pay", "retry", entry)
    assert transport.begin_effect(claim, use) is None
    assert transport.end_effect(claim, use, EffectRecord("done", '{"j":1}'), entry)
    if dead:
        letter = DeadLetter(run, 0, "p.s0", "msg", "", "broken", 1, WIRE, 0.0)
        transport.commit(claim, done(claim, "end", dead=letter, outcome="failed"))
    else:
        transport.commit(claim, done(claim, "end"))
    drive(archiver())
    assert (transport.effect(run, "0:pay") is not None) is dead


def test_effects_outlive_their_run_when_its_dead_letter_is_retried_before_it_is_reduced(
    transport: RedisTransport, archiver: MakeArchiver
) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    entry = JournalEntry("effect", run, run)
    use = EffectUse(run, "0:pay", "hold", entry)
    assert transport.begin_effect(claim, use) is None
    assert transport.end_effect(claim, use, EffectRecord("done", '{"j":1}', "hold"), entry)
    letter = DeadLetter(run, 0, "p.s0", "msg", "", "broken", 1, WIRE, 0.0)
    transport.commit(claim, done(claim, "end", dead=letter, outcome="failed"))
    found = transport.dead()[0]
    assert transport.dead_retry(found, [request(retry_of=found.ledger)], entry)
    drive(archiver())
    again = claimed(transport)
    known = transport.begin_effect(again, EffectUse(run, "0:pay", "hold", entry))
    assert known is not None and (known.state, known.value) == ("done", '{"j":1}')


def test_without_its_archive_a_reduced_run_is_told_without_steps(
    asking: RedisTransport, archiver: MakeArchiver, tmp_path: Any
) -> None:
    run = finished(asking)
    drive(archiver())
    assert asking.archive is not None
    asking.archive.close()
    asking.archive = ArchiveHistory(Place(tmp_path, "postgresql://lumia:x@127.0.0.1:9/lumia"))
    assert record(asking, run).finished and record(asking, run).steps == ()


def test_a_finished_run_takes_400_bytes_at_most(transport: RedisTransport, archiver: MakeArchiver) -> None:
    runs = [
        finished(transport, key=f"telegram:bot1:group-{n % 9}", dedup=f"telegram:bot1:group-{n % 9}:{n}")
        for n in range(50)
    ]
    drive(archiver())
    redis: Any = transport.redis
    names = [
        key
        for key in redis.scan_iter(count=1000)
        if key.startswith((b"lumia:r:", b"lumia:b:", b"lumia:dd:", b"lumia:fx:"))
    ]
    assert len(names) == 2 * len(runs)
    assert sum(redis.memory_usage(name) for name in names) / len(runs) <= 400
    assert Stream(transport).length() == 1
