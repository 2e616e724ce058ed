"""Many starts in one trip: each a step of its own, whatever becomes of its neighbours and of the connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from lumia.errors import BackendUnavailableError, LaneFullError, RateLimitedError, StaleRoutesError
from lumia.inmemory import InMemoryTransport
from lumia.lanes import LaneOptions, Rate
from lumia.marks import Retry
from lumia.ports import RunRequest, Transport
from lumia.routes import Plan, PlanStep, RouteTable
from lumia.testing import fake_redis
from tasks import failpoints
from tasks.failpoints import Failing, parse
from tasks.scripts import NAMES, source
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.cutting import cutting
from tests.tasks.test_scripts import request

REJECT = LaneOptions(cap=0)


@pytest.fixture(params=["memory", "valkey", "fakeredis"])
def carrier(request: pytest.FixtureRequest) -> Iterator[Transport]:
    """A transport of each kind that nobody serves."""
    if request.param == "memory":
        yield InMemoryTransport()
    elif request.param == "valkey":
        yield request.getfixturevalue("transport")
    else:
        with fake_redis() as url, closing(RedisTransport(connect(url), worker="host:1:aa")) as found:
            yield found


def ids(answers: list[Any]) -> list[str]:
    return [type(one).__name__ if isinstance(one, Exception) else one[0].run_id for one in answers]


def states(carrier: Transport, runs: list[RunRequest]) -> list[str]:
    return [record.state if (record := carrier.run(run.run_id)) else "unknown" for run in runs]


def other_plan(number: int) -> Plan:
    return Plan.of([PlanStep(f"p.other{number}", "pipe", "g1", "default", None, False, Retry())])


def test_each_start_gets_its_own_answer(carrier: Transport) -> None:
    runs = [request(), request(), request()]
    answers = carrier.start_each([runs[:2], runs[2:]])
    assert [[one.run_id for one in answer] for answer in answers if not isinstance(answer, Exception)] == [
        [runs[0].run_id, runs[1].run_id],
        [runs[2].run_id],
    ]
    assert states(carrier, runs) == ["queued"] * 3


def test_no_starts_are_no_trip(carrier: Transport) -> None:
    assert carrier.start_each([]) == []


def test_duplicates_within_one_batch_are_one_run(carrier: Transport) -> None:
    twin = request()
    first, second, third = (request(dedup="message 1") for _ in range(3))
    answers = carrier.start_each([[first], [second, twin], [third]])
    assert ids(answers) == [first.run_id] * 3
    assert [one[0].duplicate for one in answers if not isinstance(one, Exception)] == [False, True, True]
    assert states(carrier, [second, third, twin]) == ["unknown"] * 3  # what goes along with a duplicate is none either


def test_a_batch_sent_again_gives_the_first_answers(carrier: Transport) -> None:
    runs = [[request(key="k")], [request(key="k", dedup="one")], [request(dedup="one")]]
    assert carrier.start_each(runs) == carrier.start_each(runs)


def test_a_lane_keeps_the_order_of_the_batch(carrier: Transport) -> None:
    runs = [request(key="k") for _ in range(5)]
    carrier.start_each([[run] for run in runs])
    assert carrier.lane_holder("k") == runs[0].run_id
    assert [run for run, *_ in carrier.waiting("k", 10, 10_000, newest=False)] == [run.run_id for run in runs[1:]]


def test_one_that_is_refused_leaves_its_neighbours_be(carrier: Transport) -> None:
    rate = Rate(1, per=60, over="reject")
    held, full, limited, fine = request(key="k"), request(key="k", lane=REJECT), request(rate=rate), request()
    answers = carrier.start_each([[held], [full], [request(rate=rate)], [limited], [fine]])
    assert ids(answers)[1::2] == [LaneFullError.__name__, RateLimitedError.__name__]
    assert states(carrier, [held, full, limited, fine]) == ["queued", "unknown", "unknown", "queued"]


def test_plans_of_an_older_table_are_stale_one_by_one(carrier: Transport) -> None:
    number = carrier.publish(RouteTable(0, (), (), {"p": "g1"})).number
    run = request()
    assert ids(carrier.start_each([[run]], routes=number)) == [run.run_id]
    assert ids(carrier.start_each([[request()], [request()]], routes=number + 1)) == [StaleRoutesError.__name__] * 2


def test_an_event_beside_the_run_that_nobody_handles_costs_no_second_trip(
    transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips = list[int]()
    real = transport._run

    class Counting:
        def __call__(self, script: str, *args: Any) -> Any:
            trips.append(1)
            return real(script, *args)

        def each(self, script: str, calls: list[list[Any]]) -> list[Any]:
            trips.append(len(calls))
            return real.each(script, calls)  # type: ignore[no-any-return]

    monkeypatch.setattr(transport, "_run", Counting())
    for _ in range(3):
        unheard = replace(request(), plan=Plan.of([]), flow="event", id="msg.raw")
        transport.start_each([[request(), unheard], [request()]])
    assert trips == [2, 2, 2]
    transport.start([request(), unheard])
    assert trips == [2, 2, 2, 1]


def test_a_plan_that_is_lacking_is_sent_with_the_second_try(
    transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport.start_each([[request()]])
    redis: Any = transport.redis
    redis.delete(f"lumia:plan:{request().plan.digest}")
    calls = Counter[str]()
    real = transport.call

    def counted(script: str, *args: Any) -> Any:
        calls[script] += 1
        return real(script, *args)

    monkeypatch.setattr(transport, "call", counted)
    runs = [request(key="k") for _ in range(3)]
    assert ids(transport.start_each([[run] for run in runs])) == [run.run_id for run in runs]
    assert calls == {"start": 3}, "one for each of them"


def test_plans_that_redis_has_lost_are_sent_again(transport: RedisTransport) -> None:
    known, lost = replace(request(), plan=other_plan(1)), replace(request(), plan=other_plan(2))
    transport.start_each([[known], [lost]])
    redis: Any = transport.redis
    redis.delete(f"lumia:plan:{lost.plan.digest}")
    runs = [replace(request(key="k"), plan=plan) for plan in (known.plan, lost.plan, lost.plan)]
    assert ids(transport.start_each([[run] for run in runs])) == [run.run_id for run in runs]
    assert redis.exists(f"lumia:plan:{lost.plan.digest}")


def test_a_server_that_has_forgotten_the_scripts_is_told_them(transport: RedisTransport) -> None:
    transport.start_each([[request()]])
    redis: Any = transport.redis
    redis.script_flush()
    runs = [request() for _ in range(3)]
    assert ids(transport.start_each([[run] for run in runs])) == [run.run_id for run in runs]


def order(transport: RedisTransport, lane: str) -> list[str]:
    return [transport.lane_holder(lane), *(run for run, *_ in transport.waiting(lane, 10, 10_000, newest=False))]


def between(monkeypatch: pytest.MonkeyPatch, transport: RedisTransport, *words: tuple[int, tuple[Any, ...]]) -> None:
    """Have the server told `words` of somebody else before the start of that number in the next trip."""
    lines: Any = transport._scripts._lines

    def ask_each(commands: list[Any]) -> list[Any]:
        monkeypatch.undo()
        sent, mine = list[Any](), list[int]()
        for number, command in enumerate(commands):
            sent += [word for at, word in words if at == number]
            mine.append(len(sent))
            sent.append(command)
        found = lines.ask_each(sent)
        return [found[at] for at in mine]

    monkeypatch.setattr(lines, "ask_each", ask_each)


def test_scripts_that_are_forgotten_and_told_in_mid_trip_let_nothing_overtake(
    transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport.start_each([[request()]])
    between(monkeypatch, transport, (1, ("SCRIPT", "FLUSH")), (3, ("SCRIPT", "LOAD", source("start"))))
    runs = [request(key="k", dedup=f"message {n}") for n in range(5)]
    assert ids(transport.start_each([[run] for run in runs])) == [run.run_id for run in runs]
    assert order(transport, "k") == [run.run_id for run in runs]


def test_a_plan_that_redis_has_lost_lets_nothing_overtake(transport: RedisTransport) -> None:
    known, lost = replace(request(), plan=other_plan(1)), replace(request(), plan=other_plan(2))
    transport.start_each([[known], [lost]])
    redis: Any = transport.redis
    redis.delete(f"lumia:plan:{lost.plan.digest}")
    runs = [replace(request(key="k"), plan=plan) for plan in (lost.plan, known.plan, known.plan, lost.plan)]
    assert ids(transport.start_each([[run] for run in runs])) == [run.run_id for run in runs]
    assert order(transport, "k") == [run.run_id for run in runs]


def test_nothing_lines_up_ahead_of_what_has_to_be_planned_anew(
    transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = transport.publish(RouteTable(0, (), (), {"p": "g1"})).number
    transport.start_each([[request()]])
    others = ("EVAL", source("keep"), 0, "lumia:", 1000, "other", "", "{}")
    between(monkeypatch, transport, (1, ("HINCRBY", "lumia:routes", "number", 1)), (2, others))
    runs = [request(key="k", in_line=True) for _ in range(3)]
    answers = transport.start_each([[run] for run in runs], routes=number)
    assert ids(answers) == [runs[0].run_id, StaleRoutesError.__name__, StaleRoutesError.__name__]
    assert transport.kept.waiting()[0] == 1, "that of another process"


def test_what_follows_a_refused_or_duplicate_start_of_its_lane_is_accepted(transport: RedisTransport) -> None:
    held, full, again = request(key="k", dedup="one"), request(key="k", lane=REJECT), request(key="k", dedup="one")
    runs = [held, full, request(key="k"), again, request(key="k")]
    answers = transport.start_each([[run] for run in runs])
    assert ids(answers) == [held.run_id, LaneFullError.__name__, runs[2].run_id, held.run_id, runs[4].run_id]
    assert order(transport, "k") == [held.run_id, runs[2].run_id, runs[4].run_id]


def test_a_script_that_fails_is_the_error_of_one(transport: RedisTransport) -> None:
    redis: Any = transport.redis
    redis.set("lumia:lane:broken", "no list")
    held, waits, fine = request(key="broken"), request(key="broken"), request()
    answers = transport.start_each([[held], [waits], [fine]])
    assert isinstance(answers[1], ResponseError)
    assert [ids(answers)[0], ids(answers)[2]] == [held.run_id, fine.run_id]


def test_a_server_without_memory_says_so_to_each(transport: RedisTransport) -> None:
    redis: Any = transport.redis
    redis.config_set("maxmemory", 1)
    try:
        answers = transport.start_each([[request()], [request()]])
    finally:
        redis.config_set("maxmemory", 0)
    assert ids(answers) == [BackendUnavailableError.__name__] * 2
    assert "raise its maxmemory" in str(answers[0])


def test_without_redis_every_start_of_the_batch_is_told_soon(tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as server:
        away = RedisTransport(connect(server.url, timeout=1.0, tries=1), worker="host:1:aa")
        away.start_each([[request()]])
        away.redis.shutdown(nosave=True)
        answers = away.start_each([[request()] for _ in range(64)])
        assert ids(answers) == [BackendUnavailableError.__name__] * 64
        away.close()


def test_a_connection_cut_anywhere_in_the_answers_loses_and_doubles_nothing(
    transport: RedisTransport, valkey_server: servers.Server
) -> None:
    with cutting(("127.0.0.1", valkey_server.port)) as proxy:
        through = RedisTransport(connect(f"redis://127.0.0.1:{proxy.port}/0", timeout=2.0), worker="host:2:bb")
        through.start_each([[request()]])  # so that the connection is there
        runs = [[request(key="k", dedup=f"warm {n}")] for n in range(3)]
        whole = len(b"*3\r\n$2\r\nok\r\n$22\r\n" + b"x" * 22 + b"\r\n$1\r\n0\r\n") * 3
        for offset in range(1, whole):
            proxy.after = offset
            runs = [[request(key=f"lane {offset}", dedup=f"{offset} {n}")] for n in range(3)]
            answers = through.start_each(runs)
            assert ids(answers) == [one.run_id for (one,) in runs], f"cut after {offset} bytes"
            assert not any(one[0].duplicate for one in answers if not isinstance(one, Exception))
            waiting = transport.waiting(f"lane {offset}", 10, 10_000, newest=False)
            assert [run for run, *_ in waiting] == [one.run_id for (one,) in runs[1:]]
        assert proxy.cuts == whole - 1
        through.close()


class Recording:
    """Scripts that only note what they are called with."""

    def __init__(self) -> None:
        self.trips: list[list[str]] = []

    def __call__(self, script: str, *args: Any) -> Any:
        self.trips.append([f"{script} {args[0]}"])
        return args[0]

    def each(self, script: str, calls: list[list[Any]]) -> list[Any]:
        self.trips.append([f"{script} {args[0]}" for args in calls])
        return [args[0] for args in calls]


def test_failpoints_count_each_start_of_a_trip() -> None:
    scripts = Recording()
    failing = Failing(scripts, parse("start.before=error@2,start.after=error@3,start.after=resend@1", NAMES))
    answers = failing.each("start", [["a"], ["b"], ["c"], ["d"]])
    assert [answers[0], answers[3]] == ["a", "d"]
    assert all(isinstance(one, RedisConnectionError) for one in answers[1:3])
    assert scripts.trips == [["start a", "start c", "start d"], ["start a"]]
    assert failing("start", "e") == "e"


def test_a_lost_answer_of_one_start_is_not_called_a_refusal(
    monkeypatch: pytest.MonkeyPatch, transport: RedisTransport, valkey_server: servers.Server
) -> None:
    monkeypatch.setenv(failpoints.ENVIRONMENT, "start.after=error@2")
    failing = RedisTransport(connect(valkey_server.url), worker="host:2:bb")
    runs = [request(dedup=f"message {n}") for n in range(3)]
    answers = failing.start_each([[run] for run in runs])
    assert ids(answers) == [runs[0].run_id, BackendUnavailableError.__name__, runs[2].run_id]
    assert states(failing, runs) == ["queued"] * 3
    assert ids(failing.start_each([[request(dedup="message 1")]])) == [runs[1].run_id]
    failing.close()


def test_an_event_beside_the_run_that_nobody_handles_is_journaled_and_leaves_no_record(
    transport: RedisTransport,
) -> None:
    run, unheard = request(), replace(request(), plan=Plan.of([]), flow="event", id="msg.raw")
    for _ in range(2):
        assert [one.run_id for one in transport.start([run, unheard])] == [run.run_id, unheard.run_id]
    kinds = [entry.kind for entry in transport.tail("0", 0, 100) if entry.run_id == unheard.run_id]
    assert kinds == ["start", "end"]
    assert states(transport, [run, unheard]) == ["queued", "unknown"]
    alone = replace(request(), plan=Plan.of([]))
    transport.start([alone])
    assert states(transport, [alone]) == ["finished"]
