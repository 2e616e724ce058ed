"""Two transports, one story: whatever is done to both, they answer alike, keep order, and lose and leave nothing.

LANES_EXAMPLES=500 in the environment looks longer; failures are shown as they were found, not made smaller.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lumia.errors import LumiaError, StaleClaimError
from lumia.inmemory import InMemoryTransport
from lumia.journal import JournalEntry
from lumia.lanes import LaneOptions, Rate
from lumia.marks import Retry
from lumia.ports import Claim, Commit, Limits, RunRecord, RunRequest, Started, StepRecord
from lumia.routes import Plan, PlanStep
from lumia.testing import ManualClock
from tasks import scripts
from tasks.scripts import Scripts
from tasks.transport import RedisTransport, connect
from tests.support import servers

PLAN = Plan.of(PlanStep(f"p.s{n}", "pipe", "g", "default", None, False, Retry()) for n in range(2))
KEYS = ("", "a", "b")
LISTS = ("default:-1", "default", "default:3", "default:6", "default:9")
LIMITS = Limits(ageing=0.0, dedup_window=10_000.0, keep_runs=100_000.0)
RATES = (None, None, Rate(1, per=6.0), Rate(2, per=9.0, burst=2, over="reject"), Rate(1, per=8.0, over="drop"))
TRACES = ("lanes", "bursts", "lane:", "ia:", "iq:", "delayed", "claims", "queued:")


class Pinned(Scripts):
    """The scripts with the machine's clock instead of the server's."""

    def __init__(self, redis: Any, prefix: str) -> None:
        super().__init__(redis, prefix)
        told = "{redis.call('GET', P .. 'clock'), 0}"
        self._scripts = {
            name: redis.register_script(scripts.source(name).replace("redis.call('TIME')", told))
            for name in (*scripts.NAMES, *scripts.MORE)
        }


class Both:
    """A transport in memory and one on Valkey, that are told the same and have to say the same."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        self.memory = InMemoryTransport(LIMITS, self.clock)
        self.redis = RedisTransport(connect(url), worker="host:1:aa", limits=LIMITS)
        self.pinned = self.redis._run = Pinned(self.redis.redis, self.redis.prefix)
        self.raw: Any = self.redis.redis
        self.raw.flushdb()
        self.move(0.0)

    def move(self, seconds: float, *, lazily: bool = False) -> None:
        self.clock.move(seconds)
        self.raw.set("lumia:clock", repr(self.clock.now()))
        if lazily:  # nobody has looked yet at what is due
            return
        self.redis.call("move")
        with self.memory._changed:
            self.memory._move()

    def start(self, request: RunRequest) -> Any:
        return self._same(_answer(self.memory.start, [request]), _answer(self.redis.start, [request]))

    def claim(self) -> Any:
        self.move(0.0)
        return self._pair(self.memory.take(), self._popped())

    def commit(self, pair: tuple[Claim, Claim], commit: Commit) -> Any:
        self.move(0.0)
        mine = _answer(self.memory.commit, pair[0], commit)
        theirs = _answer(self.redis.commit, pair[1], commit)
        self.move(0.0)  # what is due at once is moved by a claim in memory, and by the keeper on Redis
        if isinstance(mine, str) or isinstance(theirs, str):
            return self._same(mine, theirs)
        return self._pair(mine, theirs)

    def cancel(self, run_id: str) -> Any:
        return self._same(self.memory.cancel(run_id, "enough"), self.redis.cancel(run_id, "enough"))

    def record(self, run_id: str) -> RunRecord:
        mine, theirs = self.memory.run(run_id), self.redis.run(run_id)
        assert mine is not None and theirs is not None
        for name in ("state", "outcome", "reason", "box", "children", "attempt", "key"):
            assert getattr(mine, name) == getattr(theirs, name), (
                run_id,
                name,
                getattr(mine, name),
                getattr(theirs, name),
            )
        return mine

    def _popped(self) -> Claim | None:
        while True:
            message = next((found for found in map(self.raw.rpop, LISTS) if found), None)
            if message is None:
                return None
            run, step, seq = json.loads(json.loads(message)["body"])[0]
            claim = self.redis.claim(run, step, seq)
            if claim is not None:
                return claim

    def _pair(self, mine: Any, theirs: Any) -> Any:
        assert (mine is None) == (theirs is None), (mine, theirs)
        if mine is None:
            return None
        same = [(one.run_id, one.step, one.attempt, one.box, one.key, one.stale) for one in (mine, theirs)]
        assert same[0] == same[1]
        return mine, theirs

    def _same(self, mine: Any, theirs: Any) -> Any:
        assert mine == theirs
        return mine


def _answer(call: Any, *args: Any) -> Any:
    try:
        found = call(*args)
        return found[0] if isinstance(found, list) else found
    except LumiaError as error:
        return f"{type(error).__name__}: {error}"


class Lanes(RuleBasedStateMachine):
    """Runs of two lanes and of none, with every option, at any time, and a worker that does anything it may."""

    url = ""
    finished = 0

    @initialize()
    def open(self) -> None:
        self.both = Both(self.url)
        self.requests: dict[str, RunRequest] = {}
        self.answers: dict[str, Any] = {}
        self.held: list[tuple[Claim, Claim]] = []
        self.done: list[tuple[tuple[Claim, Claim], Commit, Any]] = []
        self.plain: dict[str, list[str]] = {}
        self.number = 0

    def teardown(self) -> None:
        if not hasattr(self, "both"):
            return
        try:
            self.finish()
            type(self).finished += 1
        finally:
            self.both.pinned.close()
            self.both.redis.close()

    # --- what may happen

    @rule(
        key=st.sampled_from(KEYS), delay=st.sampled_from([0.0, 0.0, 5.0]), dedup=st.sampled_from(["", "", "x"]),
        cap=st.sampled_from([None, None, 0, 1, 2]), overflow=st.sampled_from(["reject", "drop_oldest", "drop_newest"]),
        max_age=st.sampled_from([0.0, 0.0, 4.0]), stale=st.sampled_from(["drop", "run"]),
        collect=st.sampled_from([0.0, 0.0, 3.0]), id=st.sampled_from(["msg", "other"]),
        rate=st.sampled_from(RATES),
    )  # fmt: skip
    def start(
        self, key: str, delay: float, dedup: str, cap: int | None, overflow: str, max_age: float, stale: str,
        collect: float, id: str, rate: Rate | None,
    ) -> None:  # fmt: skip
        delay = 0.0 if collect or rate else delay
        lane = LaneOptions(cap if key else None, overflow, max_age, stale, collect if key else 0.0)
        request = self._request(
            id, key, delay=delay, dedup=dedup, rate=rate, lane=None if lane == LaneOptions() else lane
        )
        self._start(request)

    @rule(key=st.sampled_from("ab"), count=st.integers(1, 3), pause=st.sampled_from([0.0, 2.0]), again=st.booleans())
    def start_burst(self, key: str, count: int, pause: float, again: bool) -> None:
        for _ in range(count):
            request = self._request("msg", key, lane=LaneOptions(collect=3.0))
            self._start(request)
            if again:
                self._start(request)
            self.both.move(pause, lazily=True)

    @rule(key=st.sampled_from("ab"), count=st.integers(1, 3), pause=st.sampled_from([0.0, 3.0, 6.0]))
    def start_rated(self, key: str, count: int, pause: float) -> None:
        for _ in range(count):
            self._start(self._request("rated", key, rate=RATES[2]))
            self.both.move(pause, lazily=True)

    @rule(key=st.sampled_from("aab"), count=st.integers(1, 3))
    def start_plain(self, key: str, count: int) -> None:
        for _ in range(count):
            request = self._request("msg", key)
            self._start(request)
            self.plain.setdefault(key, []).append(request.run_id)

    @rule(data=st.data())
    def start_again(self, data: st.DataObject) -> None:
        accepted = [run_id for run_id, answer in self.answers.items() if isinstance(answer, Started)]
        if accepted:
            run_id = data.draw(st.sampled_from(accepted))
            answer = self.both.start(self.requests[run_id])
            assert isinstance(answer, Started) and answer.run_id == self.answers[run_id].run_id

    @rule()
    def claim(self) -> None:
        pair = self.both.claim()
        if pair is not None:
            self._got(pair)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(), action=st.sampled_from(["next", "fuse", "end", "end", "batch", "retry", "handback"]),
        delay=st.sampled_from([0.0, 2.0]), release=st.booleans(), children=st.integers(0, 2),
        detached=st.sampled_from(["", "", "a", "b"]),
    )  # fmt: skip
    def commit(
        self, data: st.DataObject, action: str, delay: float, release: bool, children: int, detached: str
    ) -> None:
        pair = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self._commit(pair, action, delay=delay, release=release, children=children, detached=detached)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.sampled_from([0.0, 2.0]), children=st.integers(0, 1))
    def release(self, data: st.DataObject, delay: float, children: int) -> None:
        """Retry, letting go of the lane, and with a child that still runs at times."""
        pair = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if children and not pair[0].step:
            self._commit(pair, "fuse", children=children)
            if not self.held or self.held[-1][0].run_id != pair[0].run_id:
                return  # it had been cancelled
            pair = self.held.pop()
        self._commit(pair, "retry", delay=delay, release=True)

    @precondition(lambda self: self.done)
    @rule()
    def commit_again(self) -> None:
        pair, commit, answer = self.done[-1]
        if answer is None:
            with suppress(StaleClaimError):
                again = self.both.commit(pair, commit)
                assert again is None or isinstance(again, str)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        known = [run_id for run_id in self.requests if self.both.memory.run(run_id) is not None]
        if known:
            self.both.cancel(data.draw(st.sampled_from(known)))

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.5, 4.0, 11.0]), lazily=st.booleans())
    def wait(self, seconds: float, lazily: bool) -> None:
        self.both.move(seconds, lazily=lazily)

    # --- what always holds

    @invariant()
    def one_tree_of_a_lane_is_in_flight_and_both_agree(self) -> None:
        if not hasattr(self, "both"):
            return
        running: dict[str, set[str]] = {}
        for run_id in self.requests:
            if self.both.memory.run(run_id) is not None:
                record = self.both.record(run_id)
                if record.key and record.state in ("queued", "claimed"):
                    running.setdefault(record.key, set()).add(record.root_id)
        assert all(len(roots) == 1 for roots in running.values()), running
        lanes = [_shown(one.lanes()) for one in (self.both.memory, self.both.redis)]
        assert lanes[0] == lanes[1]

    def finish(self) -> None:
        """Let everything end: nothing is lost, nothing is left."""
        for _ in range(300):
            while self.held:
                self._commit(self.held.pop(), "end")
            self.claim()
            if not self.held:
                if not self.both.raw.zcard("lumia:delayed"):
                    break
                self.both.move(3.0)
        for run_id in self.requests:
            if self.both.memory.run(run_id) is not None:
                assert self.both.record(run_id).state == "finished", self.both.record(run_id)
        self._nothing_is_lost()
        assert self.both.memory._lanes.idle
        left = {key.decode().removeprefix("lumia:") for key in self.both.raw.keys("*")}
        assert [key for key in left if key.startswith(TRACES)] == []

    def _nothing_is_lost(self) -> None:
        for run_id, answer in self.answers.items():
            if not isinstance(answer, Started) or answer.duplicate:
                continue
            record = self.both.memory.run(answer.run_id)
            assert record is not None
            first = self.both.memory._runs[answer.run_id].began_with or record.box
            assert self.requests[run_id].box in first

    # --- doing it

    def _request(self, id: str, key: str, **options: Any) -> RunRequest:
        self.number += 1
        run_id = f"r{self.number:03}"
        box = f'{{"j":{self.number}}}'
        return RunRequest(run_id, "pipe", id, PLAN, box, key=key, root_id=run_id, attached=False, **options)

    def _start(self, request: RunRequest) -> None:
        answer = self.both.start(request)
        self.answers[request.run_id] = answer
        if isinstance(answer, Started):
            self.requests[request.run_id] = request
        else:
            assert answer.startswith(("LaneFullError", "RateLimitedError"))

    def _got(self, pair: tuple[Claim, Claim]) -> None:
        self.held.append(pair)
        run_id, key = pair[0].run_id, pair[0].key
        queue = self.plain.get(key, [])
        if key and run_id in queue and not pair[0].step:
            waiting = [id for id in queue[: queue.index(run_id)] if not self._has_begun(id)]
            assert waiting == [], f"{run_id} overtook {waiting}"

    def _has_begun(self, run_id: str) -> bool:
        record = self.both.memory.run(run_id)
        return record is None or bool(record.attempt or record.steps or record.outcome)

    def _commit(
        self, pair: tuple[Claim, Claim], action: str, *, delay: float = 0.0, release: bool = False, children: int = 0,
        detached: str = "",
    ) -> None:  # fmt: skip
        claim = pair[0]
        if action in ("next", "fuse") and claim.step + 1 == len(PLAN.steps):
            action = "end"
        kind = {"fuse": "next", "batch": "end"}.get(action, action)
        entry = JournalEntry("step", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, "p.s")
        caused = tuple(self._children(claim, children, detached)) if kind in ("next", "end") else ()
        commit = Commit(
            kind, StepRecord("p.s", kind), entry, index=claim.step + 1 if kind == "next" else 0, delay=delay,
            outcome="done" if kind == "end" else "", children=caused, fuse=action == "fuse", batch=action == "batch",
            release=release and kind == "retry",
        )  # fmt: skip
        answer = self.both.commit(pair, commit)
        if isinstance(answer, str):
            assert answer.startswith(("LaneFullError", "RateLimitedError")), answer
            self.held.append(pair)
            for child in caused:
                del self.requests[child.run_id]
            return
        self.done.append((pair, commit, answer))
        if answer is not None:
            self._got(answer)

    def _children(self, claim: Claim, count: int, detached: str) -> Iterator[RunRequest]:
        for _ in range(count):
            child = self._request("child", claim.key)
            child = replace(child, root_id=claim.root_id, attached=True, inside=bool(claim.key))
            yield self._known(replace(child, parent=claim.run_id, cause=f"{claim.run_id}/{claim.step}"))
        if detached:
            lane = LaneOptions(cap=2)
            yield self._known(replace(self._request("child", detached, lane=lane), parent=claim.run_id))

    def _known(self, request: RunRequest) -> RunRequest:
        self.requests[request.run_id] = request
        return request


def _shown(report: Any) -> Any:
    return sorted((one.key, one.run, one.waiting, one.collecting) for one in report.lanes), dict(report.totals)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.valkey(tmp_path_factory.mktemp("machine"), appendonly=False) as server:
        yield server.url


def test_both_transports_tell_the_same_story_and_keep_every_promise_of_lanes(url: str) -> None:
    class Here(Lanes):
        pass

    Here.url, examples = url, int(os.environ.get("LANES_EXAMPLES", "25"))
    quick = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    run_state_machine_as_test(Here, settings=quick)
    assert Here.finished >= examples  # each compared both transports after every step, and what was left at the end


def test_runs_that_let_go_of_their_lane_come_back_to_its_front_in_the_order_they_came_back(url: str) -> None:
    machine = Lanes()
    type(machine).url = url
    machine.open()
    machine.start_plain(key="a", count=4)
    for _ in range(2):
        machine.claim()
        machine._commit(machine.held.pop(), "retry", delay=2.0, release=True)
    machine.claim()
    machine.both.move(2.5)
    order = []
    while machine.held:
        order.append(machine.held[0][0].run_id)
        machine._commit(machine.held.pop(), "end")
        machine.claim()
    assert order == ["r003", "r001", "r002", "r004"]
    machine.teardown()
