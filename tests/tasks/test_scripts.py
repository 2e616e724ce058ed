"""The Lua scripts by themselves, on a real Valkey and on the fake Redis that `lumia.testing` ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumia.dead import DeadFilter, DeadLetter
from lumia.errors import StaleClaimError, StaleRoutesError, StoreError
from lumia.journal import JournalEntry
from lumia.marks import Retry
from lumia.ports import Claim, Commit, Limits, RunRequest, StepRecord, StoreOp
from lumia.routes import Plan, PlanStep, Route, RouteTable
from lumia.system import new_id
from lumia.testing import fake_redis
from tasks.transport import RedisTransport, connect

STEPS = [PlanStep(f"p.s{n}", "pipe", "g1", "default", None, False, Retry()) for n in range(3)]
PLAN = Plan.of(STEPS)
PLAN_KEY = f"lumia:plan:{PLAN.digest}"


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
    found = RedisTransport(redis, worker="host:1:aa", limits=Limits(batch=16))
    found.call("heartbeat", found.worker, 2500)
    redis.set("lumia:beat:since", 1)
    yield found
    found.close()


def request(run_id: str = "", **options: Any) -> RunRequest:
    run_id = run_id or new_id()
    return RunRequest(run_id, "pipe", "msg", PLAN, '{"j":1}', root_id=run_id, **{"attached": False, **options})


def popped(transport: RedisTransport, list_: str = "default:3") -> tuple[str, int, int]:
    """Pop the oldest message the way kombu does and return its arguments; what goes ahead of all others comes first."""
    redis: Any = transport.redis
    envelope = json.loads(redis.rpop("default:-1") or redis.rpop(list_))
    assert envelope["headers"]["task"] == "lumia.step"
    run, step, seq = json.loads(envelope["body"])[0]
    return run, step, seq


def newest(transport: RedisTransport) -> Any:
    redis: Any = transport.redis
    return json.loads(redis.lindex("default:-1", -1) or redis.lindex("default:3", -1))


def claimed(transport: RedisTransport, list_: str = "default:3") -> Claim:
    claim = transport.claim(*popped(transport, list_))
    assert claim is not None
    return claim


def done(claim: Claim, action: str = "next", **options: Any) -> Commit:
    step = claim.plan.steps[claim.step]
    entry = JournalEntry("step", claim.run_id, claim.root_id, claim.id, step=claim.step, handler=step.handler)
    defaults: dict[str, Any] = {"index": claim.step + 1} if action == "next" else {}
    if action == "end":
        defaults["outcome"] = "done"
    return Commit(action, StepRecord(step.handler, "next"), entry, **{**defaults, **options})


def test_a_message_shows_the_handler_and_carries_three_arguments(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    envelope = newest(transport)
    assert envelope["headers"]["shadow"] == "p.s0"
    assert envelope["headers"]["id"] == f"{run}.0.1"
    assert json.loads(envelope["body"])[0] == [run, 0, 1]


def test_every_script_gives_the_first_answer_again(transport: RedisTransport) -> None:
    one = request(dedup="d")
    assert transport.start([one]) == transport.start([one])
    message = popped(transport)
    claim = transport.claim(*message)
    assert claim is not None and transport.claim(*message) == claim
    commit = done(claim, fuse=True, box='{"j":2}')
    fused = transport.commit(claim, commit)
    assert fused is not None and fused == transport.commit(claim, commit)
    assert (fused.step, fused.attempt, fused.box) == (1, 1, '{"j":2}')
    last = done(fused, "end")
    assert transport.commit(fused, last) is transport.commit(fused, last) is None
    record = transport.run(one.run_id)
    assert record is not None and record.finished and len(record.steps) == 2


def test_a_successor_with_a_delay_is_put_off_in_the_commit_and_pushed_when_it_is_due(
    transport: RedisTransport,
) -> None:
    redis: Any = transport.redis
    run = transport.start([request(key="k")])[0].run_id
    claim = claimed(transport)
    commit = done(claim, delay=30.0)
    for _ in range(2):
        assert transport.commit(claim, commit) is None
        record = transport.run(run)
        assert record is not None and (record.state, record.handler, record.attempt) == ("delayed", "p.s1", 0)
        assert redis.zrange("lumia:delayed", 0, -1) == [run.encode()]
        assert redis.llen("default:3") == redis.zcard("lumia:claims") == 0
        assert transport.lane_holder("k") == run
    assert 25_000 < transport.call("move") <= 30_000
    redis.zadd("lumia:delayed", {run: 1})
    assert transport.call("move") == -1
    follower = claimed(transport)
    assert (follower.run_id, follower.step, follower.attempt) == (run, 1, 1)


def test_a_batched_answer_is_given_again_with_the_same_run(transport: RedisTransport) -> None:
    transport.start([request()])
    transport.start([request()])
    claim = claimed(transport)
    commit = done(claim, "end", batch=True)
    follower = transport.commit(claim, commit)
    assert follower is not None and transport.commit(claim, commit) == follower
    assert follower.run_id != claim.run_id and transport.redis.llen("default:3") == 0


def test_a_batch_takes_the_most_urgent_run_of_the_same_queue(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    transport.start([request(priority=9)])
    urgent = transport.start([request(priority=0)])[0].run_id
    follower = transport.commit(claim, done(claim, "end", batch=True))
    assert follower is not None and follower.run_id == urgent


def test_a_batch_leaves_messages_that_are_not_its_own_alone(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    transport.redis.lpush("default", "not json", '{"headers": {"task": "other"}}')
    transport.start([request()])
    assert transport.commit(claim, done(claim, "end", batch=True)) is None
    assert transport.redis.llen("default") == 2


def test_a_step_with_a_hard_limit_is_never_batched_and_its_message_carries_the_limit(transport: RedisTransport) -> None:
    hard = Plan.of([replace(STEPS[0], hard=True, timeout=7.0)])
    transport.start([request()])
    claim = claimed(transport)
    transport.start([replace(request(), plan=hard)])
    envelope = newest(transport)
    assert envelope["headers"]["timelimit"] == [7, None]
    assert transport.commit(claim, done(claim, "end", batch=True)) is None


def test_a_copy_too_many_is_dropped(transport: RedisTransport) -> None:
    transport.start([request()])
    run, step, seq = popped(transport)
    other = RedisTransport(transport.redis, worker="host:2:bb")
    assert transport.claim(run, step, seq) is not None
    assert other.claim(run, step, seq) is None
    assert transport.health().counters["dropped"] == 1


def test_a_fenced_worker_changes_nothing(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    old = claimed(transport)
    transport.redis.zadd("lumia:claims", {run: 1})  # long overdue
    told = transport.call("reap", 5000, 2000, 1000, 1000, "default:3")
    assert told[1] == 1 and told[3].decode().endswith("overdue")
    new = claimed(transport)
    assert (new.attempt, new.token > old.token) == (2, True)
    before = transport.redis.hgetall(f"lumia:r:{run}")
    with pytest.raises(StaleClaimError):
        transport.commit(old, done(old, store=(StoreOp("set", "p//x", "1"),), box='{"j":666}'))
    assert transport.redis.hgetall(f"lumia:r:{run}") == before
    assert transport.read("p//x") == ("none", None)
    assert transport.health().counters["stale"] == 1


def test_a_refused_store_write_leaves_everything_as_it_was(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    transport.write([StoreOp("append", "p//list", "1", keep=5)])
    ops = (StoreOp("set", "p//fine", "1"), StoreOp("incr", "p//list", "1"))
    with pytest.raises(StoreError, match="list"):
        transport.commit(claim, done(claim, store=ops))
    assert transport.read("p//fine") == ("none", None)
    assert transport.run(run).state == "claimed"  # type: ignore[union-attr]


def test_claims_of_a_silent_process_are_taken_only_after_heartbeats_flowed(transport: RedisTransport) -> None:
    transport.start([request()])
    claimed(transport)
    transport.redis.zrem("lumia:workers", transport.worker)
    transport.redis.delete("lumia:beat:since")
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[0] == 0  # the beats have just begun
    transport.redis.set("lumia:beat:since", 1)
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[0] == 1
    assert claimed(transport).attempt == 2


def test_a_live_process_keeps_its_claims(transport: RedisTransport) -> None:
    transport.start([request()])
    claimed(transport)
    transport.redis.set("lumia:beat:since", 1)
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[:3] == [0, 0, 0]


def test_a_process_that_stood_still_keeps_what_it_claims_before_its_next_heartbeat(transport: RedisTransport) -> None:
    redis: Any = transport.redis
    redis.zadd("lumia:workers", {transport.worker: redis.time()[0] - 60})  # woken up; its keeper has not run yet
    transport.call("heartbeat", "host:2:bb", 2500)
    redis.set("lumia:beat:since", 1)
    transport.start([request()])
    claimed(transport)
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[:3] == [0, 0, 0]


def test_a_vanished_message_comes_back_once_and_costs_no_attempt(transport: RedisTransport) -> None:
    lost = transport.start([request()])[0].run_id
    popped(transport)
    transport.start([request()])
    assert transport.call("reap", 5000, -1, 1000, 1000, "default:3")[2] == 0  # first noticed
    assert [transport.call("reap", 5000, -1, 1000, 1000, "default:3")[2] for _ in range(3)] == [1, 0, 0]
    claims = [claimed(transport), claimed(transport)]
    assert {claim.run_id: claim.attempt for claim in claims}[lost] == 1


def test_healthy_messages_are_never_called_vanished(transport: RedisTransport) -> None:
    for _ in range(50):
        transport.start([request()])
    for _ in range(10):
        claimed(transport)
    for _ in range(3):
        assert transport.call("reap", 5000, -1, 1000, 1000, "default:3")[2] == 0


def test_a_retry_waits_and_holds_its_lane(transport: RedisTransport) -> None:
    first = transport.start([request(key="k")])[0].run_id
    second = transport.start([request(key="k")])[0].run_id
    claim = claimed(transport)
    transport.commit(claim, done(claim, "retry", delay=3600))
    assert (transport.run(first).state, transport.run(second).state) == ("delayed", "waiting")  # type: ignore[union-attr]
    assert transport.call("move") > 3_500_000
    transport.redis.zadd("lumia:delayed", {first: 1})
    transport.call("move")
    again = claimed(transport)
    assert (again.run_id, again.attempt) == (first, 2)
    transport.commit(again, done(again, "end"))
    assert claimed(transport).run_id == second


def test_a_step_handed_back_costs_no_attempt(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    transport.commit(claim, done(claim, "handback", delay=0.001))
    transport.redis.zadd("lumia:delayed", {run: 1})
    transport.call("move")
    again = claimed(transport)
    assert (again.attempt, again.handbacks) == (1, 1)
    assert transport.run(run).steps == ()  # type: ignore[union-attr]


def test_a_lane_is_held_until_the_last_attached_child_has_ended(transport: RedisTransport) -> None:
    root = transport.start([request(key="k")])[0].run_id
    waiting = transport.start([request(key="k")])[0].run_id
    claim = claimed(transport)
    child = replace(request(key="k"), parent=root, cause=f"{root}/0", root_id=root, attached=True, inside=True)
    transport.commit(claim, done(claim, "end", children=(child,)))
    assert transport.run(root).state == "ended"  # type: ignore[union-attr]
    its = claimed(transport)
    assert its.run_id == child.run_id and transport.redis.llen("default:3") == 0
    transport.commit(its, done(its, "end"))
    assert transport.run(root).finished and claimed(transport).run_id == waiting  # type: ignore[union-attr]


def test_a_cancelled_run_ends_at_its_next_commit(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    assert transport.cancel(run, "enough")
    assert transport.commit(claim, done(claim, fuse=True)) is None
    record = transport.run(run)
    assert record is not None and (record.outcome, record.reason) == ("cancelled", "enough")


def test_dead_letters_keep_the_box_and_are_listed_newest_first(transport: RedisTransport) -> None:
    for number in range(3):
        transport.start([request()])
        claim = claimed(transport)
        letter = DeadLetter(claim.run_id, 0, "p.s0", "msg", "", f"error {number}", 3, claim.box, float(number))
        transport.commit(claim, done(claim, "end", outcome="failed", dead=letter))
    assert next(letter.error for letter in transport.dead()) == "error 2"
    assert transport.dead()[0].box == '{"j":1}' and transport.health().counters["dead"] == 3


def test_a_resource_whose_process_died_is_in_the_dead_letters(transport: RedisTransport) -> None:
    run = transport.start([request(arc=True)])[0].run_id
    assert transport.begin_inline(run).arc and transport.redis.llen("default:3") == 0
    transport.redis.set("lumia:beat:since", 1)
    transport.redis.zadd("lumia:workers", {transport.worker: 1})
    transport.call("reap", 5000, 2000, 1000, 1000)
    record = transport.run(run)
    assert record is not None and (record.outcome, record.reason) == ("failed", "arc lost")
    assert "live resource" in transport.dead()[0].error


def test_plans_made_with_an_old_route_table_are_refused(transport: RedisTransport) -> None:
    table = RouteTable(0, (Route("pipe", "msg", "p.s0", "p"),), (), {"p": "g1"})
    number = transport.publish(table).number
    assert transport.publish(table).number == number
    newer = transport.publish(replace(table, plugins={"p": "g2"})).number
    with pytest.raises(StaleRoutesError):
        transport.start([request()], routes=number)
    assert transport.start([request()], routes=newer)
    assert transport.routes().plugins == {"p": "g2"}  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["\u0000", "é漢字🎉", '"]}\\', "' OR 1", "a" * 5000])
def test_awkward_text_survives_in_names_and_reasons(transport: RedisTransport, text: str) -> None:
    id_ = f"msg {text}"
    run = transport.start([replace(request(), id=id_)])[0].run_id
    claim = claimed(transport)
    transport.commit(
        claim, done(claim, "end", outcome="failed", reason=text, store=(StoreOp("set", f"p//{text}", "1"),))
    )
    record = transport.run(run)
    assert record is not None and (record.id, record.reason) == (id_, text)
    assert transport.read(f"p//{text}") == ("value", "1")


def test_a_batched_answer_is_not_given_again_once_the_run_was_taken_over(transport: RedisTransport) -> None:
    transport.start([request()])
    transport.start([request()])
    claim = claimed(transport)
    commit = done(claim, "end", batch=True)
    follower = transport.commit(claim, commit)
    assert follower is not None
    transport.redis.zadd("lumia:claims", {follower.run_id: 1})
    transport.call("reap", 5000, 2000, 1000, 1000, "default:3")
    assert claimed(transport).run_id == follower.run_id  # by another thread of the same process
    assert transport.commit(claim, commit) is None


def test_a_counter_that_would_overflow_leaves_everything_as_it_was(transport: RedisTransport) -> None:
    transport.write([StoreOp("incr", "p//n", str(2**62))])
    transport.start([request()])
    claim = claimed(transport)
    ops = (StoreOp("set", "p//fine", "1"), StoreOp("incr", "p//n", str(2**61)), StoreOp("incr", "p//n", str(2**62)))
    with pytest.raises(StoreError, match="full counter"):
        transport.commit(claim, done(claim, "end", store=ops))
    assert transport.read("p//fine") == ("none", None)


def test_writes_are_checked_in_their_order(transport: RedisTransport) -> None:
    transport.write([StoreOp("set", "p//k", '"text"')])
    transport.write([StoreOp("delete", "p//k"), StoreOp("append", "p//k", "1", keep=3)])
    assert transport.read("p//k") == ("list", ["1"])
    transport.write([StoreOp("set", "p//k", "5"), StoreOp("incr", "p//k", "2")])
    assert transport.read("p//k") == ("value", "7")


def test_a_direct_write_that_is_sent_again_counts_once(transport: RedisTransport) -> None:
    ops = json.dumps([{"o": "incr", "k": "p//n", "v": "1", "f": "", "n": 0, "t": 0}])
    assert [transport.call("write", ops, "one") for _ in range(2)] == [[b"ok"], [b"ok"]]
    transport.call("write", ops, "other")
    assert transport.read("p//n") == ("value", "2")


def test_a_plan_that_redis_has_lost_is_sent_along_again(transport: RedisTransport) -> None:
    transport.start([request(dedup="one")])
    transport.redis.delete(PLAN_KEY)  # a crash lost the last second
    root = transport.start([request(dedup="two")])[0].run_id
    assert transport.redis.exists(PLAN_KEY)
    claim = claimed(transport)
    transport.redis.delete(PLAN_KEY)
    child = replace(request(), parent=root, attached=True)
    transport.commit(claim, done(claim, "end", children=(child,)))
    assert transport.redis.exists(PLAN_KEY) and transport.run(child.run_id) is not None


def test_a_run_whose_plan_is_gone_is_a_dead_letter_and_lets_go_of_its_lane(transport: RedisTransport) -> None:
    lost = transport.start([request(key="k")])[0].run_id
    waiting = transport.start([request(key="k")])[0].run_id
    transport.redis.delete(PLAN_KEY)
    worker = RedisTransport(transport.redis, worker="host:2:bb")
    assert worker.claim(*popped(transport)) is None
    record = transport.run(lost)
    assert record is not None and record.outcome == "failed" and "emptied" in record.reason
    letter = transport.dead()[0]
    assert (letter.run_id, letter.handler, letter.key, letter.box) == (lost, "p.s0", "k", '{"j":1}')
    assert transport.run(waiting).state == "queued"  # type: ignore[union-attr]
    kinds = [entry.kind for entry in transport.tail("0", 0, 100) if entry.run_id == lost]
    assert kinds == ["start", "dead", "end"]


def test_a_batch_is_not_upset_by_a_message_that_only_looks_like_ours(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    odd = {"headers": {"task": "lumia.step", "timelimit": [None, None]}, "body": "W1tdXQ=="}
    transport.redis.lpush("default", json.dumps(odd))
    assert transport.commit(claim, done(claim, "end", batch=True)) is None
    assert transport.run(claim.run_id).finished and transport.redis.llen("default") == 1  # type: ignore[union-attr]


def test_a_run_that_is_cancelled_while_it_is_handed_back_tells_its_end(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    assert transport.cancel(run, "enough")
    transport.commit(claim, done(claim, "handback"))
    entries = transport.tail("0", 0, 9)
    assert [(entry.kind, entry.outcome) for entry in entries] == [("start", ""), ("cancel", ""), ("end", "cancelled")]
    assert "box" in entries[-1].detail


def test_a_handback_that_is_nobodys_fault_does_not_count(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    transport.commit(claim, replace(done(claim, "handback"), free=True))
    transport.redis.zadd("lumia:delayed", {claim.run_id: 1})
    transport.call("move")
    assert claimed(transport).handbacks == 0


def test_a_cancelled_run_whose_worker_died_is_not_executed_again(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claimed(transport)
    transport.cancel(run, "enough")
    transport.redis.zadd("lumia:claims", {run: 1})
    transport.call("reap", 5000, 2000, 1000, 1000, "default:3")
    record = transport.run(run)
    assert record is not None and (record.outcome, record.reason) == ("cancelled", "enough")
    assert transport.redis.llen("default:3") == 0


def test_a_resource_of_a_process_without_heartbeats_has_the_time_of_its_step(transport: RedisTransport) -> None:
    transport.redis.set("lumia:beat:since", 1)
    gateway = RedisTransport(transport.redis, worker="gateway:1:bb")
    run = gateway.start([request(arc=True)])[0].run_id
    transport.call("reap", 5000, 2000, 1000, 1000)
    assert transport.run(run).outcome == ""  # type: ignore[union-attr]
    transport.redis.zadd("lumia:claims", {run: 1})
    transport.call("reap", 5000, 2000, 1000, 1000)
    assert transport.run(run).reason == "arc lost"  # type: ignore[union-attr]


def test_a_child_that_is_tried_again_keeps_its_turn_in_the_lane(transport: RedisTransport) -> None:
    root = transport.start([request(key="k")])[0].run_id
    claim = claimed(transport)
    parts = [
        replace(request(key="k"), parent=root, cause=f"{root}/0", root_id=root, attached=True, inside=True)
        for _ in range(2)
    ]
    transport.commit(claim, done(claim, "end", children=tuple(parts)))
    first = claimed(transport)
    transport.commit(first, done(first, "retry", delay=3600))
    assert transport.redis.llen("default:3") == 0
    transport.redis.zadd("lumia:delayed", {first.run_id: 1})
    transport.call("move")
    for part in parts:
        turn = claimed(transport)
        assert turn.run_id == part.run_id
        transport.commit(turn, done(turn, "end"))
    assert transport.run(root).finished  # type: ignore[union-attr]


def test_dead_letters_are_bounded_and_what_is_dropped_is_counted(transport: RedisTransport) -> None:
    names = {f"old{number}.0": number for number in range(10_000)}
    transport.redis.zadd("lumia:dead", names)
    transport.redis.hset("lumia:dl", mapping=dict.fromkeys(names, "{}"))
    transport.start([request()])
    claim = claimed(transport)
    letter = DeadLetter(claim.run_id, 0, "p.s0", "msg", "", "no luck", 3, claim.box, 1.0)
    transport.commit(claim, done(claim, "end", outcome="failed", dead=letter))
    assert transport.dead(DeadFilter(limit=1)) == [letter]
    assert transport.redis.zcard("lumia:dead") == transport.redis.hlen("lumia:dl") == 10_000
    assert transport.health().counters["dead dropped"] == 1 and not transport.redis.hexists("lumia:dl", "old0.0")


def test_nothing_is_overdue_until_heartbeats_flow_again_after_redis_was_away(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    transport.redis.set("lumia:beat:last", 1)  # nobody could write for long
    transport.redis.zadd("lumia:claims", {run: 1})
    transport.call("heartbeat", transport.worker, 2500)
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[1] == 0
    assert transport.commit(claim, done(claim, "end")) is None


def test_a_clock_that_was_set_back_makes_nobody_dead(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claimed(transport)
    transport.redis.set("lumia:beat:since", 1)
    transport.redis.set("lumia:beat:last", int(1e14))
    transport.call("heartbeat", transport.worker, 2500)
    transport.redis.zadd("lumia:workers", {transport.worker: 1})
    assert transport.call("reap", 5000, 2000, 1000, 1000, "default:3")[0] == 0
    assert transport.run(run).state == "claimed"  # type: ignore[union-attr]


def test_finished_runs_are_forgotten_after_a_while(transport: RedisTransport) -> None:
    run = transport.start([request()])[0].run_id
    claim = claimed(transport)
    transport.commit(claim, done(claim, "end"))
    for kind in ("r", "b"):
        assert 0 < transport.redis.ttl(f"lumia:{kind}:{run}") <= transport.limits.keep_runs


def test_nothing_is_left_behind_when_all_is_done(transport: RedisTransport) -> None:
    for number in range(5):
        transport.start([request(key=f"k{number % 2}")])
    for _ in range(5):
        claim = claimed(transport)
        transport.commit(claim, done(claim, "end"))
    redis: Any = transport.redis
    left = {key.decode() for key in redis.keys("*")}
    assert {key for key in left if not key.startswith(("lumia:r:", "lumia:b:"))} == {
        "lumia:seq", "lumia:token", "lumia:journal", "lumia:journal:bytes", PLAN_KEY, "lumia:workers",
        "lumia:beat:last", "lumia:beat:since", "lumia:stats",
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["start", "claim", "next", "end", "retry", "reap", "move", "resend"]), max_size=40))
def test_whatever_happens_lanes_keep_order_and_nothing_is_lost_or_doubled(actions: list[str]) -> None:
    with fake_redis_once() as transport:
        transport.redis.flushdb()
        world = World(transport)
        for action in actions:
            getattr(world, action)()
        world.finish()
        assert world.ended == world.started


class World:
    """One lane and one worker, driven at random; remembers what must be true."""

    def __init__(self, transport: RedisTransport) -> None:
        self.transport = transport
        self.started: list[str] = []
        self.ended: list[str] = []
        self.held: Claim | None = None
        self.last: tuple[Claim, Commit] | None = None

    def start(self) -> None:
        self.started.append(self.transport.start([request(key="lane")])[0].run_id)

    def claim(self) -> None:
        if self.held is None and self.transport.redis.llen("default:3"):
            self.held = self.transport.claim(*popped(self.transport))

    def _commit(self, action: str, **options: Any) -> None:
        if self.held is None:
            return
        claim = self.held
        last = claim.step + 1 == len(PLAN.steps)
        action = "end" if action == "next" and last else action
        commit = done(claim, action, **options)
        self.transport.commit(claim, commit)
        self.held, self.last = None, (claim, commit)
        if action == "end":
            self.ended.append(claim.run_id)

    def next(self) -> None:
        self._commit("next")

    def end(self) -> None:
        self._commit("end")

    def retry(self) -> None:
        self._commit("retry", delay=0.0)

    def reap(self) -> None:
        self.transport.call("reap", 5000, -1, 60_000, 1000, "default:3")

    def move(self) -> None:
        self.transport.call("move")

    def resend(self) -> None:
        if self.last is not None:
            claim, commit = self.last
            try:
                self.transport.commit(claim, commit)
            except StaleClaimError:
                assert self.held is not None or commit.action != "end"

    def finish(self) -> None:
        for _ in range(len(self.started) * 8 + 8):
            self.move()
            self.claim()
            self.next()


_fake: list[Any] = []


def fake_redis_once() -> Any:
    """One fake Redis for all examples of the property test."""
    from contextlib import contextmanager

    @contextmanager
    def found() -> Iterator[RedisTransport]:
        if not _fake:
            from fakeredis import FakeRedis

            _fake.append(FakeRedis())
        yield RedisTransport(_fake[0], worker="host:1:aa", limits=Limits())

    return found()
