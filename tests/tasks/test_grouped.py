"""Group commit: the commits of quick steps go together, and nobody can tell by what is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumia.errors import StaleClaimError, StoreError
from lumia.journal import JournalEntry
from lumia.marks import Retry
from lumia.ports import Claim, Commit, EffectUse, Limits, RunRequest, StepRecord, StoreOp
from lumia.routes import Plan, PlanStep
from lumia.system import new_id
from tasks import grouped
from tasks.transport import RedisTransport, connect
from tests.tasks.test_scripts import url

__all__ = ["url"]
STEPS = [PlanStep(f"p.s{n}", "pipe", "g1", "default", None, False, Retry()) for n in range(4)]
PLAN = Plan.of(STEPS)


@pytest.fixture
def transport(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisTransport]:
    monkeypatch.setattr(grouped, "LONGEST_SECONDS", 60.0)
    found = opened(url)
    found.redis.flushdb()
    yield found
    found.close()


def opened(url: str, quick: bool = True) -> RedisTransport:
    found = RedisTransport(connect(url), worker="host:1:aa", limits=Limits(batch=16))
    found.groups.is_quick = lambda handler: quick
    return found


def claimed(transport: RedisTransport, plan: Plan = PLAN, run_id: str = "") -> Claim:
    """Start a run and claim its first step."""
    run_id = run_id or new_id()
    transport.start([RunRequest(run_id, "pipe", "msg", plan, '{"j":1}', root_id=run_id)])
    claim = transport.claim(run_id, 0, int(transport.redis.get("lumia:seq") or 0))
    assert claim is not None
    return claim


def ends(claim: Claim, action: str = "next", **options: Any) -> Commit:
    """What an executor makes of a step that ends so; a next one is fused."""
    handler = claim.plan.steps[claim.step].handler
    entry = JournalEntry("step", claim.run_id, claim.root_id, claim.id, step=claim.step, handler=handler)
    usual: dict[str, Any] = {"index": claim.step + 1, "fuse": True} if action == "next" else {}
    if action == "end":
        usual["outcome"] = "done"
    return Commit(action, StepRecord(handler, action), entry, **{**usual, **options})


def goes_on(transport: RedisTransport, claim: Claim, **options: Any) -> Claim:
    follower = transport.commit(claim, ends(claim, **options))
    assert follower is not None
    return follower


def written(transport: RedisTransport, run_id: str) -> list[str]:
    """Return the handlers whose steps the broker knows as ended."""
    names: Any = transport.redis.hgetall(f"lumia:r:{run_id}")
    return [names[b"S%d" % n].decode().split('"')[1] for n in range(1, int(names.get(b"S", 0)) + 1)]


def test_a_step_that_puts_its_successor_off_takes_along_the_quick_ones_before_it(transport: RedisTransport) -> None:
    first = claimed(transport)
    claim = goes_on(transport, goes_on(transport, first))
    assert transport.commit(claim, ends(claim, fuse=False, delay=30.0)) is None
    assert written(transport, first.run_id) == ["p.s0", "p.s1", "p.s2"]
    record = transport.run(first.run_id)
    assert record is not None and (record.state, record.handler) == ("delayed", "p.s3")


def test_quick_steps_are_written_together_with_the_last_one(transport: RedisTransport) -> None:
    claim = first = claimed(transport)
    for _ in range(3):
        claim = goes_on(transport, claim)
    assert (claim.step, written(transport, first.run_id)) == (3, [])
    assert transport.commit(claim, ends(claim, "end")) is None
    assert written(transport, first.run_id) == ["p.s0", "p.s1", "p.s2", "p.s3"]
    steps = [entry for entry in transport.tail("0", 0, 100) if entry.kind == "step"]
    assert [entry.step for entry in steps] == [0, 1, 2, 3]
    assert steps[0].detail["box"] == '{"j":1}', "the Box a run began with is in its first entry"
    record = transport.run(first.run_id)
    assert record is not None and record.finished and record.outcome == "done"
    assert transport.groups.of(claim) is None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    boxes=st.lists(st.sampled_from([None, '{"j":2}', '{"j":3}']), min_size=3, max_size=3),
    stores=st.lists(st.booleans(), min_size=4, max_size=4),
    last=st.sampled_from(["end", "retry", "next", "handback"]),
)
def test_what_is_written_is_the_same_as_one_by_one(
    transport: RedisTransport, url: str, boxes: list[str | None], stores: list[bool], last: str
) -> None:
    def path(one: RedisTransport) -> tuple[Any, ...]:
        one.redis.flushdb()
        claim = claimed(one, run_id="0run")
        for n in range(3):
            ops = (StoreOp("incr", "p//n", "1"),) if stores[n] else ()
            claim = goes_on(one, claim, box=boxes[n], store=ops)
        options: dict[str, Any] = {"store": (StoreOp("set", "p//x", "7"),) if stores[3] else ()}
        if last == "next":
            options |= {"index": 3, "fuse": False}
        one.commit(claim, ends(claim, last, **options))
        found = one.run("0run")
        assert found is not None
        entries = [replace(e, time=0.0, cursor="", detail={**e.detail, "late": 0}) for e in one.tail("0", 0, 100)]
        raw = {b"l": b"default", **one.redis.hgetall("lumia:r:0run")}
        for moment in (b"b", b"e", b"Q"):
            raw.pop(moment, None)
        return replace(found, started=0.0, ended=0.0), entries, raw, one.read("p//n"), one.read("p//x")

    single = opened(url, quick=False)
    try:
        assert path(transport) == path(single)
    finally:
        single.close()


def test_a_group_that_is_sent_again_gives_its_first_answer(transport: RedisTransport) -> None:
    claim = claimed(transport)
    begun = goes_on(transport, claim)
    group = transport.groups.of(claim)
    assert group is not None
    waiting = list(group.waiting)
    last = replace(begun, step=1)
    assert transport._commit(last, ends(last, "end"), waiting) is None
    before = transport.redis.hgetall(f"lumia:r:{claim.run_id}")
    assert transport._commit(last, ends(last, "end"), waiting) is None
    assert transport.redis.hgetall(f"lumia:r:{claim.run_id}") == before


@pytest.mark.parametrize(
    "what",
    [
        {"store": (StoreOp("set", "p//x", "1"),)},
        {"children": (RunRequest("0child", "pipe", "other", PLAN, '{"j":1}', root_id="0child"),)},
        {"fuse": False},
    ],
)
def test_a_step_that_did_more_than_go_on_is_written_at_once(transport: RedisTransport, what: dict[str, Any]) -> None:
    claim = claimed(transport)
    transport.commit(claim, ends(claim, **what))
    assert written(transport, claim.run_id) == ["p.s0"]


def test_a_step_before_one_that_is_not_known_as_quick_is_written_at_once(transport: RedisTransport) -> None:
    transport.groups.is_quick = lambda handler: handler != "p.s2"
    claim = claimed(transport)
    run = claim.run_id
    claim = goes_on(transport, claim)
    assert written(transport, run) == []
    claim = goes_on(transport, claim)
    assert (claim.step, written(transport, run)) == (2, ["p.s0", "p.s1"])


def test_steps_of_different_limits_are_not_grouped(transport: RedisTransport) -> None:
    plan = Plan.of([STEPS[0], replace(STEPS[1], timeout=1.0)])
    claim = claimed(transport, plan)
    goes_on(transport, claim)
    assert written(transport, claim.run_id) == ["p.s0"]


def test_a_run_that_was_tried_before_is_not_grouped(transport: RedisTransport) -> None:
    claim = claimed(transport)
    transport.redis.zadd("lumia:claims", {claim.run_id: 1})
    transport.call("heartbeat", transport.worker, 2500)
    transport.redis.set("lumia:beat:since", 1)
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[1] == 1
    again = transport.claim(claim.run_id, 0, int(transport.redis.get("lumia:seq") or 0))
    assert again is not None and again.attempt == 2
    goes_on(transport, again)
    assert written(transport, claim.run_id) == ["p.s0"]


def test_an_effect_sends_what_waits_before_it_is_made(transport: RedisTransport) -> None:
    claim = goes_on(transport, claimed(transport))
    entry = JournalEntry("effect", claim.run_id, step=1, handler="p.s1")
    assert transport.begin_effect(claim, EffectUse(claim.run_id, "1:mail", "hold", entry)) is None
    assert written(transport, claim.run_id) == ["p.s0"]
    assert transport.commit(claim, ends(claim, "end")) is None
    assert written(transport, claim.run_id) == ["p.s0", "p.s1"]


def test_looking_at_a_run_or_cancelling_it_sends_what_waits(transport: RedisTransport) -> None:
    claim = goes_on(transport, claimed(transport))
    record = transport.run(claim.run_id)
    assert record is not None and [step.handler for step in record.steps] == ["p.s0"]
    claim = goes_on(transport, claim)
    assert transport.cancel(claim.run_id, "enough")
    assert written(transport, claim.run_id) == ["p.s0", "p.s1"]
    record = transport.run(claim.run_id)
    assert record is not None and record.state == "claimed", (
        "a step is under way: its lane is not let go before it ends"
    )
    assert transport.commit(claim, ends(claim, fuse=False)) is None
    record = transport.run(claim.run_id)
    assert record is not None and (record.outcome, record.reason) == ("cancelled", "enough")


def test_a_group_whose_claim_was_lost_changes_nothing(transport: RedisTransport) -> None:
    claim = claimed(transport)
    begun = goes_on(transport, claim)
    transport.redis.hset(f"lumia:r:{claim.run_id}", "t", 99)
    with pytest.raises(StaleClaimError):
        transport.commit(begun, ends(begun, "end"))
    assert written(transport, claim.run_id) == []
    assert transport.groups.of(claim) is None


def test_a_refused_commit_keeps_what_has_waited_for_it(transport: RedisTransport) -> None:
    transport.write([StoreOp("append", "p//list", "1", keep=5)])
    claim = claimed(transport)
    begun = goes_on(transport, claim, box='{"j":5}')
    with pytest.raises(StoreError, match="list"):
        transport.commit(begun, ends(begun, "end", store=(StoreOp("incr", "p//list", "1"),)))
    assert written(transport, claim.run_id) == []
    transport.commit(begun, ends(begun, "end", outcome="failed"))
    record = transport.run(claim.run_id)
    assert record is not None and (len(record.steps), record.box) == (2, '{"j":5}')


def test_what_waits_for_a_step_that_turns_out_slow_is_sent_meanwhile(transport: RedisTransport) -> None:
    claim = goes_on(transport, claimed(transport))
    assert transport.groups.overdue(60.0) == []
    transport.send_waiting(transport.groups.overdue(0.0))
    assert written(transport, claim.run_id) == ["p.s0"]
    claim = goes_on(transport, claim)
    assert transport.commit(claim, ends(claim, "end")) is None
    assert written(transport, claim.run_id) == ["p.s0", "p.s1", "p.s2"]


def test_a_long_wait_shows_in_the_entry(transport: RedisTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = goes_on(transport, claimed(transport))
    group = transport.groups.of(claim)
    assert group is not None
    group.waiting[0] = replace(group.waiting[0], ended=group.waiting[0].ended - 2.0)
    transport.commit(claim, ends(claim, "end"))
    first = next(entry for entry in transport.tail("0", 0, 100) if entry.kind == "step")
    assert 2000 <= first.detail["late"] < 60_000
    assert first.time < next(e for e in transport.tail("0", 0, 100) if e.step == 1).time - 1.5


def test_only_so_many_wait_and_only_so_long(transport: RedisTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped, "MOST", 1)
    claim = goes_on(transport, claimed(transport))
    goes_on(transport, claim)
    assert written(transport, claim.run_id) == ["p.s0", "p.s1"]
    monkeypatch.setattr(grouped, "LONGEST_SECONDS", 0.0)
    claim = goes_on(transport, claimed(transport))
    goes_on(transport, claim)
    assert written(transport, claim.run_id) == ["p.s0", "p.s1"]
