"""Deployments at the port: in memory, and by the scripts on a real Valkey and on the fake Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumia.deployment import ALIVE_SECONDS, LOADING_SECONDS, Deployments, Holder, Member, Standing, Wanted
from lumia.errors import BusyDeploymentError, BusyTurnError, StaleDeploymentError, StaleRoutesError
from lumia.inmemory import InMemoryTransport
from lumia.marks import Retry
from lumia.ports import RunRequest, Transport
from lumia.routes import Plan, PlanStep, Route, RouteTable
from lumia.system import new_id
from lumia.testing import ManualClock, fake_redis
from tasks.transport import RedisTransport, connect

ONE = Wanted({"dice": {"name": "dice", "commit": "1" * 40}}, ("echo",), operation="op-1", origin="here:/bot")
TWO = Wanted({"dice": {"name": "dice", "commit": "2" * 40}}, operation="op-2", origin="there:/bot")
TABLE = RouteTable(0, (Route("pipe", "msg", "dice.roll", "dice", "2.0.0", queue="dice"),), (), {"dice": "2.0.0"})


@dataclass
class Port:
    """A transport, and what lets time pass for it."""

    transport: Transport
    move: Callable[[float], None]

    @property
    def deployments(self) -> Deployments:
        return self.transport.deployments()

    def attend(self, *names: str, active: int = 0) -> Standing:
        """Have members look, one after the other."""
        return [self.deployments.attend(Member(name, place="here:/bot", active=active)) for name in names][-1]

    def pass_by(self, seconds: float, *names: str) -> Standing:
        """Let time pass in which these members go on looking, and somebody does in any case."""
        for _ in range(int(seconds)):
            self.move(1.0)
            self.deployments.look()
            for name in names:
                self.attend(name)
        return self.deployments.look()


@pytest.fixture(scope="module")
def fake() -> Iterator[str]:
    with fake_redis() as found:
        yield found


@pytest.fixture(params=["memory", "valkey", "fakeredis"])
def port(request: pytest.FixtureRequest) -> Iterator[Port]:
    if request.param == "memory":
        clock = ManualClock()
        yield Port(InMemoryTransport(clock=clock), clock.move)
        return
    url = (
        request.getfixturevalue("fake")
        if request.param == "fakeredis"
        else request.getfixturevalue("valkey_server").url
    )
    redis: Any = connect(url)
    redis.flushdb()
    transport = RedisTransport(redis, worker="host:1:aa")

    def move(seconds: float) -> None:
        """Set everything back that the server has noted by its clock."""
        ms = int(seconds * 1000)
        for name in redis.zrange("lumia:members", 0, -1):
            redis.zincrby("lumia:members", -ms, name)
        for field in ("seen", "calm", "began", "until"):
            if redis.hexists("lumia:deployment", field):
                redis.hincrby("lumia:deployment", field, -ms)
        if redis.hexists("lumia:deployment:turn", "until"):
            redis.hincrby("lumia:deployment:turn", "until", -ms)

    yield Port(transport, move)
    transport.close()


def test_a_deployment_is_active_when_every_live_member_is_ready(port: Port) -> None:
    port.attend("a", "b")
    assert port.deployments.begin(ONE, 60) == 1
    assert port.attend("a") == Standing(1, "preparing", 0)
    assert port.deployments.answer(1, "a", "loading") == Standing(1, "preparing", 0)
    assert port.deployments.answer(1, "a", "ready") == Standing(1, "preparing", 0)
    progress = port.deployments.progress()
    assert progress is not None
    assert (progress.wanted, progress.open, progress.ready) == (ONE, ("b",), ("a",))
    assert port.deployments.answer(1, "b", "ready") == Standing(1, "active", 1)
    assert port.deployments.progress() is None and port.deployments.wanted(1) == ONE
    (decided,) = port.deployments.decided()
    assert (decided.number, decided.state, decided.operation, decided.ready) == (1, "active", "op-1", 2)


def test_its_routes_are_published_with_it_and_not_before(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "a", "ready", table=TABLE)
    assert port.transport.routes() is None
    port.deployments.answer(1, "b", "ready", table=TABLE)
    published = port.transport.routes()
    assert published is not None and (published.number, published.dump()) == (1, TABLE.dump())


def test_one_failure_rolls_back_and_names_process_and_reason(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "a", "ready", table=TABLE)
    said = port.deployments.answer(1, "b", "failed", ("plugin dice (import, plugins/dice/plugin.py:7): no",))
    assert said == Standing(1, "rolled back", 0)
    (decided,) = port.deployments.decided()
    assert decided.reasons == (("b", "plugin dice (import, plugins/dice/plugin.py:7): no"),)
    assert port.transport.routes() is None


def test_after_a_roll_back_the_one_before_is_still_active(port: Port) -> None:
    port.attend("a")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "a", "ready")
    port.deployments.begin(TWO, 60)
    assert port.deployments.answer(2, "a", "failed", ("no",)) == Standing(2, "rolled back", 1)
    assert port.deployments.wanted(1) == ONE


def test_two_are_not_prepared_at_once(port: Port) -> None:
    port.attend("a")
    port.deployments.begin(ONE, 60)
    with pytest.raises(BusyDeploymentError, match="deployment 1, begun at here:/bot"):
        port.deployments.begin(TWO, 60)


def test_beginning_it_again_for_the_same_operation_begins_nothing(port: Port) -> None:
    port.attend("a")
    assert port.deployments.begin(ONE, 60) == port.deployments.begin(ONE, 60) == 1
    port.deployments.answer(1, "a", "ready")
    assert port.deployments.begin(ONE, 60) == 1
    assert port.deployments.look() == Standing(1, "active", 1)


def test_what_was_made_from_another_one_than_the_active_one_is_not_begun(port: Port) -> None:
    assert port.deployments.begin(ONE, 60, 0) == 1
    assert port.deployments.begin(ONE, 60, 0) == 1  # it is this operation's own
    with pytest.raises(StaleDeploymentError, match="made from deployment 0, and 1 is active"):
        port.deployments.begin(TWO, 60, 0)
    assert port.deployments.look() == Standing(1, "active", 1)
    port.attend("a")
    assert port.deployments.begin(TWO, 60, 1) == 2
    port.deployments.answer(2, "a", "failed", ("no",))
    assert port.deployments.begin(Wanted({}), 60, 1) == 3  # what was rolled back is nothing to be made from


def holder(name: str) -> Holder:
    return Holder(name, f"{name}:/bot", 7, f"pkg -S {name}")


def test_one_has_the_turn_until_it_gives_it_back(port: Port) -> None:
    first = port.deployments.take_turn(holder("here"), 10)
    assert port.deployments.take_turn(holder("here"), 10) == first
    with pytest.raises(BusyTurnError, match=r"`pkg -S here` on here \(process 7, since \d\d:\d\d:\d\d\)") as busy:
        port.deployments.take_turn(holder("there"), 10)
    assert (busy.value.token, busy.value.place) == (first, "here:/bot")
    port.deployments.end_turn(first)
    assert not port.deployments.keep_turn(first, 10)
    assert port.deployments.take_turn(holder("there"), 10) == first + 1
    port.deployments.end_turn(first)  # said twice
    assert port.deployments.keep_turn(first + 1, 10)


def test_a_turn_that_nobody_keeps_ends_and_its_holder_begins_nothing_any_more(port: Port) -> None:
    first = port.deployments.take_turn(holder("here"), 10)
    port.move(9)
    assert port.deployments.keep_turn(first, 10)
    port.move(9)
    with pytest.raises(BusyTurnError):
        port.deployments.take_turn(holder("there"), 10)
    port.move(2)
    assert port.deployments.keep_turn(first, 10)  # late, and nobody wanted it
    port.move(11)
    assert port.deployments.take_turn(holder("there"), 10) == first + 1
    assert not port.deployments.keep_turn(first, 10)
    with pytest.raises(StaleDeploymentError, match="another one took its turn"):
        port.deployments.begin(ONE, 60, turn=first)
    assert port.deployments.begin(ONE, 60, turn=first + 1) == 1


def test_the_turn_of_a_holder_that_is_known_to_be_dead_is_taken_over(port: Port) -> None:
    first = port.deployments.take_turn(holder("here"), 10)
    assert port.deployments.take_turn(holder("there"), 10, over=first) == first + 1
    with pytest.raises(BusyTurnError):
        port.deployments.take_turn(holder("here"), 10, over=first)


def test_without_members_it_is_active_at_once(port: Port) -> None:
    assert port.deployments.begin(ONE, 60) == 1
    assert port.deployments.look() == Standing(1, "active", 1)


def test_a_member_that_died_before_it_began_to_load_is_not_waited_for(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "a", "ready")
    assert port.pass_by(ALIVE_SECONDS + 1, "a") == Standing(1, "active", 1)


def test_a_member_that_died_while_it_loaded_rolls_back(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "b", "loading")
    port.deployments.answer(1, "a", "ready")
    assert port.pass_by(ALIVE_SECONDS + 2, "a") == Standing(1, "preparing", 0)
    assert port.pass_by(LOADING_SECONDS - ALIVE_SECONDS, "a") == Standing(1, "rolled back", 0)
    assert port.deployments.decided()[0].reasons == (("b", "died while it loaded"),)


def test_a_member_that_died_after_it_was_ready_changes_nothing(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "b", "ready")
    port.pass_by(ALIVE_SECONDS + 1, "a")
    assert port.deployments.answer(1, "a", "ready") == Standing(1, "active", 1)


def test_a_member_that_signs_off_while_it_loads_is_not_blamed(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "b", "loading")
    port.deployments.answer(1, "a", "ready")
    port.deployments.leave("b")
    assert port.deployments.look() == Standing(1, "active", 1)


def test_who_does_not_answer_in_time_is_named(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 20)
    port.deployments.answer(1, "a", "ready")
    assert port.pass_by(19, "a", "b") == Standing(1, "preparing", 0)
    assert port.pass_by(2, "a", "b") == Standing(1, "rolled back", 0)
    assert port.deployments.decided()[0].reasons == (("b", "has not answered within 20 s"),)


def test_a_broker_that_was_away_does_not_look_like_a_world_of_dead_members(port: Port) -> None:
    port.attend("a", "b")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "a", "ready")
    port.move(30.0)
    assert port.attend("a") == Standing(1, "preparing", 0)
    assert port.attend("b") == Standing(1, "preparing", 0)
    assert port.deployments.answer(1, "b", "ready") == Standing(1, "active", 1)


def test_an_answer_that_comes_too_late_is_forgotten(port: Port) -> None:
    port.attend("a")
    port.deployments.begin(ONE, 60)
    port.deployments.answer(1, "a", "ready")
    assert port.deployments.answer(1, "a", "failed", ("late",)) == Standing(1, "active", 1)
    assert port.deployments.answer(9, "a", "failed", ("foreign",)) == Standing(1, "active", 1)


def test_routes_of_another_deployment_are_not_published(port: Port) -> None:
    assert port.transport.publish(TABLE, deployment=0).number == 1
    port.deployments.begin(ONE, 60)
    with pytest.raises(StaleRoutesError, match="deployment 0"):
        port.transport.publish(RouteTable(0, (), (), {}), deployment=0)
    published = port.transport.routes()
    assert published is not None and published.number == 1
    assert port.transport.publish(RouteTable(0, (), (), {}), deployment=1).number == 2


def test_members_tell_what_they_hold_until_they_leave(port: Port) -> None:
    port.deployments.attend(Member("a", "gateway", "here:/bot", 3, ("dice 1.0", "dice 2.0")))
    assert port.deployments.members() == [Member("a", "gateway", "here:/bot", 3, ("dice 1.0", "dice 2.0"))]
    port.deployments.leave("a")
    assert port.deployments.members() == []


def test_the_alarm_about_a_member_ends_with_it(valkey_url: str) -> None:
    transport = RedisTransport(connect(valkey_url), worker="host:1:aa")
    for name in ("a", "b", "c"):
        transport.deployments().attend(Member(name))
        transport.alarm(f"deployment in {name}", "it hangs", "restart it")
    transport.redis.zincrby("lumia:members", -61_000, "b")
    transport.deployments().leave("a")
    transport.deployments().attend(Member("c"))
    assert list(transport.redis.hkeys("lumia:alarms")) == [b"deployment in c"]
    transport.close()


def test_what_runs_in_flight_were_planned_with_is_in_use(port: Port) -> None:
    plan = Plan.of([PlanStep("dice.roll", "pipe", "1.0", "default", None, False, Retry())])
    run = new_id()
    port.transport.start([RunRequest(run, "pipe", "msg", plan, '{"j":1}', root_id=run, attached=False)])
    assert port.deployments.in_use() == {("dice.roll", "1.0")}
    port.transport.cancel(run, "enough")
    assert port.deployments.in_use() == frozenset()


def test_the_last_fifty_are_remembered(port: Port) -> None:
    for _ in range(53):
        port.deployments.begin(Wanted({}), 60)
    assert [one.number for one in port.deployments.decided()] == list(range(53, 3, -1))


LOOKS = st.one_of(
    st.tuples(st.just("attend"), st.sampled_from("abc")),
    st.tuples(st.just("leave"), st.sampled_from("abc")),
    st.tuples(st.sampled_from(["loading", "ready", "failed"]), st.sampled_from("abc")),
    st.tuples(st.just("begin"), st.just("")),
    st.tuples(st.just("pass"), st.sampled_from(["1", "3", "6", "16"])),
)


def said(port: Port, what: str, who: str) -> object:
    """Do one thing to a port and return what is seen of it."""
    newest = port.deployments.look().number
    if what == "begin":
        try:
            return port.deployments.begin(Wanted({}), 12)
        except BusyDeploymentError as error:
            return f"busy {error.number}"
    if what == "attend":
        return port.attend(who)
    if what == "leave":
        port.deployments.leave(who)
        return port.deployments.look()
    if what == "pass":
        port.move(float(who))
        return None
    return port.deployments.answer(newest, who, what, ("no",) if what == "failed" else ())  # type: ignore[arg-type]


@given(steps=st.lists(LOOKS, max_size=25))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_scripts_decide_as_the_in_memory_transport_does(valkey_server: Any, steps: list[tuple[str, str]]) -> None:
    clock = ManualClock()
    memory = Port(InMemoryTransport(clock=clock), clock.move)
    redis: Any = connect(valkey_server.url)
    redis.flushdb()
    transport = RedisTransport(redis, worker="host:1:aa")

    def move(seconds: float) -> None:
        for name in redis.zrange("lumia:members", 0, -1):
            redis.zincrby("lumia:members", -int(seconds * 1000), name)
        for field in ("seen", "calm", "began", "until"):
            if redis.hexists("lumia:deployment", field):
                redis.hincrby("lumia:deployment", field, -int(seconds * 1000))

    scripts = Port(transport, move)
    memory.deployments.look()
    scripts.deployments.look()
    for what, who in steps:
        assert said(memory, what, who) == said(scripts, what, who), (what, who)
    ends = [[(one.state, one.reasons) for one in port.deployments.decided()] for port in (memory, scripts)]
    assert ends[0] == ends[1]
    transport.close()
