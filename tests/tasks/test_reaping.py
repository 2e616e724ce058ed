"""What the scripts do about lost claims, vanished messages, plans and the effects of dead letters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lumia.dead import DeadLetter, Failure
from lumia.journal import JournalEntry
from lumia.ports import EffectRecord, EffectUse
from lumia.routes import Plan
from tasks import letters
from tasks.keeper import look_once_more
from tasks.transport import RedisTransport
from tasks.wire import ALONE_AFTER, ALONE_START_SECONDS
from tests.tasks.test_scripts import PLAN, PLAN_KEY, STEPS, claimed, done, newest, popped, request, transport, url

__all__ = ["transport", "url"]
WEEK = 7 * 24 * 3600


def reap(transport: RedisTransport, grace: int = 2000) -> list[int]:
    found = transport.call("reap", 5000, grace, 1000, 1000, "default:3")
    return [int(number) for number in found[:3]]


def die(transport: RedisTransport) -> None:
    """Let the worker of every claim have been silent for long."""
    transport.redis.zadd("lumia:workers", {transport.worker: 1})
    assert reap(transport)[0] >= 1


def copy_youngest_to_tail(transport: RedisTransport) -> None:
    redis: Any = transport.redis
    redis.rpush("default:3", redis.lindex("default:3", 0))


def letter(claim: Any) -> DeadLetter:
    return DeadLetter(claim.run_id, claim.step, "p.s0", "msg", claim.key, "no luck", 1, claim.box, 1.0,
                      plan=PLAN.text, retry_of=claim.shared)  # fmt: skip


def entry(run_id: str) -> JournalEntry:
    return JournalEntry("dead", run_id, outcome="retried")


def ttl(transport: RedisTransport, key: str) -> int:
    """Return how long a key is kept in seconds, -1 for ever; a week that has just begun is a whole one."""
    left: Any = transport.redis.ttl(key)
    return WEEK if WEEK - 60 < left < WEEK else int(left)


def test_a_lost_try_costs_none_and_is_remembered(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    for number in (1, 2):
        claim = claimed(transport)
        assert (claim.attempt, claim.losses, claim.tries) == (number, number - 1, 1)
        die(transport)
    claim = claimed(transport)
    assert (claim.attempt, claim.losses, claim.tries) == (3, 2, 1)
    assert [(one.attempt, one.worker, one.error, one.lost) for one in claim.failures] == [
        (1, transport.worker, "its worker died", True), (2, transport.worker, "its worker died", True)
    ]  # fmt: skip
    told = [entry for entry in transport.tail("0", 0, 100) if entry.outcome == "lost"]
    assert [(entry.run_id, entry.attempt, entry.worker) for entry in told] == [
        (run, 1, transport.worker), (run, 2, transport.worker)
    ]  # fmt: skip


def test_an_overdue_try_is_remembered_as_hung(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claimed(transport)
    transport.redis.zadd("lumia:claims", {run: 1})
    assert reap(transport)[1] == 1
    claim = claimed(transport)
    assert (claim.overdue, claim.losses, claim.tries) == (1, 0, 1)
    assert [(one.error, one.lost) for one in claim.failures] == [("hung: not done in time", True)]


def test_losses_and_failures_end_with_their_step(transport: RedisTransport) -> None:
    transport.start([request()])
    claimed(transport)
    die(transport)
    claim = claimed(transport)
    failures = (*claim.failures, Failure(2, 5.0, "w", "RuntimeError: no luck"))
    transport.commit(claim, done(claim, "retry", delay=0.0, failures=failures))
    transport.call("move")
    again = claimed(transport)
    assert again.failures == failures and (again.losses, again.tries) == (1, 2)
    fused = transport.commit(again, done(again, fuse=True))
    assert fused is not None and (fused.losses, fused.failures) == (0, ())
    transport.commit(fused, done(fused))
    assert (claimed(transport).losses, transport.redis.hexists(f"lumia:r:{fused.run_id}", "F")) == (0, False)


def test_a_retry_child_brings_along_how_its_tries_ended(transport: RedisTransport) -> None:
    failures = (Failure(1, 5.0, "w", "ValueError: é\n🎉"),)
    transport.start([request(attempt=1, failures=failures)])
    assert claimed(transport).failures == failures


def test_a_step_to_be_executed_alone_has_the_time_its_process_takes_to_start(transport: RedisTransport) -> None:
    hard = Plan.of([replace(STEPS[0], hard=True, timeout=7.0)])
    run = transport.start([replace(request(), plan=hard)])[0].run_id
    for _ in range(ALONE_AFTER):
        claimed(transport)
        die(transport)
    assert newest(transport)["headers"]["timelimit"] == [7 + ALONE_START_SECONDS, None]
    claimed(transport)
    redis: Any = transport.redis
    seconds, _ = redis.time()
    left = redis.zscore("lumia:claims", run) / 1000 - seconds
    assert 7 + ALONE_START_SECONDS < left < 7 + ALONE_START_SECONDS + 5


def test_a_copy_at_the_tail_that_is_younger_makes_nothing_vanish(transport: RedisTransport) -> None:
    for _ in range(300):
        transport.start([request()])
    copy_youngest_to_tail(transport)
    assert [reap(transport, -1)[2] for _ in range(6)] == [0] * 6
    assert transport.redis.llen("default:3") == 301


def test_among_copies_what_has_vanished_is_found_all_the_same_and_once(transport: RedisTransport) -> None:
    for _ in range(5):
        transport.start([request()])
    lost = popped(transport)[0]
    copy_youngest_to_tail(transport)
    assert [reap(transport, -1)[2] for _ in range(5)] == [0, 1, 0, 0, 0]
    assert newest(transport) and transport.run(lost).state == "queued"  # type: ignore[union-attr]
    assert (transport.redis.llen("default:3"), transport.redis.llen("default:-1")) == (5, 1)


def test_a_process_that_ends_pushes_what_it_had_popped_at_once(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    popped(transport)
    import logging

    transport.redis.sadd("lumia:queues", "default")
    look_once_more(transport, logging.getLogger("lumia"))
    assert claimed(transport).run_id == run


def test_a_plan_is_kept_while_a_run_needs_it_and_a_week_longer(transport: RedisTransport) -> None:
    first, second = (transport.start([request()])[0].run_id for _ in range(2))
    assert ttl(transport, PLAN_KEY) == -1
    for run, left in ((first, -1), (second, WEEK)):
        claim = claimed(transport)
        assert claim.run_id == run
        transport.commit(claim, done(claim, "end"))
        assert ttl(transport, PLAN_KEY) == left
    assert not transport.redis.exists("lumia:plans")
    transport.start([request()])
    assert ttl(transport, PLAN_KEY) == -1


def test_a_plan_waits_for_the_children_of_its_run(transport: RedisTransport) -> None:
    root = transport.start([request(key="k")])[0].run_id
    claim = claimed(transport)
    other = Plan.of(STEPS[:1])
    child = replace(request(key="k"), plan=other, parent=root, root_id=root, attached=True, inside=True)
    transport.commit(claim, done(claim, "end", children=(child,)))
    assert ttl(transport, PLAN_KEY) == ttl(transport, f"lumia:plan:{other.digest}") == -1
    last = claimed(transport)
    transport.commit(last, done(last, "end"))
    assert ttl(transport, PLAN_KEY) == ttl(transport, f"lumia:plan:{other.digest}") == WEEK


def paid(transport: RedisTransport, run: str) -> tuple[str, str]:
    record = transport.effect(run, "0:pay")
    return (record.state, record.value) if record is not None else ("", "")


def test_the_effects_of_a_dead_letter_are_kept_until_it_is_dealt_with(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    use = EffectUse(run, "0:pay", "retry", entry(run))
    assert transport.begin_effect(claim, use) is None
    assert transport.end_effect(claim, use, EffectRecord("done", "1"), entry(run))
    transport.commit(claim, done(claim, "end", outcome="failed", dead=letter(claim)))
    assert ttl(transport, f"lumia:fx:{run}") == -1
    found = transport.dead()[0]
    retried = request(retry_of=found.ledger)
    assert transport.dead_retry(found, [retried], entry(run))
    assert ttl(transport, f"lumia:fx:{run}") == WEEK
    again = claimed(transport)
    assert again.ledger == f"{run}/0" and paid(transport, run) == ("done", "1")
    transport.commit(again, done(again, "end", outcome="failed", dead=letter(again)))
    assert ttl(transport, f"lumia:fx:{run}") == -1
    assert transport.dead_drop(transport.dead()[0], entry(run)) and ttl(transport, f"lumia:fx:{run}") == WEEK


def test_a_retry_that_is_sent_again_gives_the_first_answer_and_starts_once(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    transport.commit(claim, done(claim, "end", outcome="failed", dead=letter(claim)))
    found = transport.dead()[0]
    arguments = transport._taking(found, entry(claim.run_id))
    run = transport._runs([request()])
    assert [transport.call("dead", *arguments, *run) for _ in range(2)] == [[b"ok"], [b"ok"]]
    assert transport.redis.llen("default:3") == 1
    assert not transport.dead_retry(found, [request()], entry(claim.run_id))
    assert not transport.dead_drop(found, entry(claim.run_id))
    assert transport.redis.llen("default:3") == 1 and transport.dead() == []


def test_a_retry_brings_its_plan_along_when_that_is_gone(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    transport.commit(claim, done(claim, "end", outcome="failed", dead=letter(claim)))
    transport.redis.delete(PLAN_KEY)
    assert transport.dead_retry(transport.dead()[0], [request()], entry(claim.run_id))
    assert claimed(transport).plan == PLAN


def test_what_the_reaper_buries_tells_its_lost_tries(transport: RedisTransport) -> None:
    transport.start([request()])
    claimed(transport)
    die(transport)
    transport.redis.delete(PLAN_KEY)
    other = RedisTransport(transport.redis, worker="host:2:bb")
    assert other.claim(*popped(transport)) is None
    other._scripts.close()
    found = transport.dead()[0]
    assert [one.error for one in found.history] == ["its worker died"] and (found.flow, found.plan) == ("pipe", "")


@pytest.mark.parametrize("field", ["box", "error", "key", "id"])
def test_a_letter_comes_back_as_it_was_written(field: str) -> None:
    for text in ("", "é漢字🎉", '"]}\\', "\u0000"):
        base = DeadLetter("run", 1, "p.s0", "msg", "", "no luck", 1, "{}", 1.5, arc=True,
                          history=(Failure(1, 2.5, "w", "e", True),))  # fmt: skip
        one = replace(base, **{field: text})  # type: ignore[arg-type]
        assert DeadLetter.from_dict(json.loads(letters.packed(one))) == one


def test_what_was_lost_goes_ahead_of_everything_that_waits(transport: RedisTransport) -> None:
    lost = transport.start([request(priority=6)])[0].run_id
    claimed(transport, "default:6")
    urgent = transport.start([request(priority=0)])[0].run_id
    for _ in range(3):
        transport.start([request()])
    die(transport)
    again = claimed(transport)
    assert (again.run_id, again.priority) == (lost, 6), "it keeps its own priority"
    follower = transport.commit(again, done(again, "end", batch=True))
    assert follower is not None and follower.run_id == urgent


def test_a_step_that_is_to_be_executed_alone_joins_no_batch(transport: RedisTransport) -> None:
    lost = transport.start([request()])[0].run_id
    for _ in range(ALONE_AFTER):
        assert claimed(transport).run_id == lost
        die(transport)
    transport.redis.rpoplpush("default:-1", "elsewhere")
    transport.start([request()])
    beside = claimed(transport)
    transport.redis.rpoplpush("elsewhere", "default:-1")
    assert transport.commit(beside, done(beside, "end", batch=True)) is None, "it waits for a message of its own"
    assert claimed(transport).run_id == lost
