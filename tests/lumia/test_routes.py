"""Finding the handlers of an id, and the order they run in."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.marks import Retry
from lumia.routes import Plan, PlanStep, Route, RouteIndex, RouteTable, Schedule, pattern

EVENTS = ("interceptor", "chain", "consumer", "cron")
GLOBS = st.text("ab.*", max_size=7)
IDS = st.text("ab.\n*", max_size=9)
RETRIES = st.builds(Retry, st.integers(1, 9), st.floats(0, 9), st.floats(0, 99))
STEPS = st.builds(
    PlanStep, st.text(max_size=9), st.sampled_from(("pipe", *EVENTS)), st.text(max_size=5), st.text(max_size=5),
    st.none() | st.floats(0.1, 99), st.booleans(), RETRIES,
)  # fmt: skip
ROUTES = st.builds(
    Route, st.sampled_from(("pipe", *EVENTS)), GLOBS, st.text("xyz", min_size=1, max_size=2), st.just("p"),
    glob=st.booleans(), priv=st.integers(-2, 2), retry=RETRIES, timeout=st.none() | st.floats(0.1, 9),
)  # fmt: skip


def naive(glob: str, id: str) -> bool:
    """Tell by brute force whether a glob matches: its first character is a star or the id's first one."""
    if not glob:
        return not id
    if glob[0] == "*":
        return any(naive(glob[1:], id[n:]) for n in range(len(id) + 1))
    return bool(id) and id[0] == glob[0] and naive(glob[1:], id[1:])


def route(id: str, handler: str = "p.f", kind: str = "pipe", **options: Any) -> Route:
    return Route(kind, id, handler, "p", glob="*" in id, **options)


def found(index: RouteIndex, flow: str, id: str) -> list[str]:
    return [step.handler for step in index.plan(flow, id).steps]


@given(GLOBS, IDS)
def test_a_star_matches_any_text_and_every_other_character_itself(glob: str, id: str) -> None:
    assert (pattern(glob).fullmatch(id) is not None) == naive(glob, id)


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_character_but_the_star_is_special(one: str, other: str) -> None:
    assert pattern(one.replace("*", "")).fullmatch(one.replace("*", ""))
    assert pattern(f"{one.replace('*', '')}*").fullmatch(one.replace("*", "") + other)


def test_many_stars_do_not_make_matching_slow() -> None:
    assert pattern("a*" * 60 + "b").fullmatch("a" * 512) is None
    assert pattern("*a" * 60).fullmatch("a" * 512)


@given(st.lists(ROUTES, max_size=12), IDS, st.sampled_from(("pipe", "event")))
def test_the_index_finds_what_trying_every_route_finds(routes: list[Route], id: str, flow: str) -> None:
    numbered = [Route.from_dict({**one.as_dict(), "order": n}) for n, one in enumerate(routes)]
    wanted = [one for one in numbered if one.flow == flow and (naive(one.id, id) if one.glob else one.id == id)]
    stage = {"interceptor": 0, "chain": 1, "consumer": 2, "cron": 2, "pipe": 0}
    expected = sorted(wanted, key=lambda one: (stage[one.kind], -one.priv, one.order))
    index = RouteIndex(numbered)
    assert index.matching(flow, id) == expected
    assert [step.handler for step in index.plan(flow, id).steps] == [one.handler for one in expected]


@pytest.mark.parametrize(
    "globs, id, expected",
    [
        (["a*a"], "a", []),
        (["a*a"], "aa", ["a*a"]),
        (["ab*ba"], "aba", []),
        (["*b", "*xyb"], "ab", ["*b"]),
        (["*b", "*xyb"], "xyb", ["*b", "*xyb"]),
        (["*", "a*", "*a", "**"], "a", ["*", "a*", "*a", "**"]),
        (["msg.send, dest=3.qq.group-*"], "msg.send, dest=3.qq.group-", ["msg.send, dest=3.qq.group-*"]),
        (["*.*.*"], "a.b", []),
    ],
)
def test_beginning_and_end_of_a_glob_never_share_characters(globs: list[str], id: str, expected: list[str]) -> None:
    index = RouteIndex([route(glob, glob, order=n) for n, glob in enumerate(globs)])
    assert found(index, "pipe", id) == expected


def test_a_glob_mark_without_a_star_stands_for_its_own_text() -> None:
    index = RouteIndex([Route("pipe", "msg", "p.f", "p", glob=True)])
    assert found(index, "pipe", "msg") == ["p.f"]
    assert found(index, "pipe", "msg2") == []


def test_stages_come_first_then_priv_then_registration() -> None:
    kinds = ["consumer", "chain", "interceptor"]
    routes = [
        route("news", f"{kind}.{priv}.{order}", kind, priv=priv, order=order)
        for order, (kind, priv) in enumerate([(kind, priv) for kind in kinds for priv in (1, 9, 1)])
    ]
    assert found(RouteIndex(routes), "event", "news") == [
        "interceptor.9.7", "interceptor.1.6", "interceptor.1.8", "chain.9.4", "chain.1.3", "chain.1.5",
        "consumer.9.1", "consumer.1.0", "consumer.1.2",
    ]  # fmt: skip


def test_pipelines_and_events_of_one_id_do_not_see_each_other() -> None:
    index = RouteIndex(
        [route("msg", "p.pipe"), route("*", "p.guard", "interceptor"), route("msg", "p.see", "consumer")]
    )
    assert found(index, "pipe", "msg") == ["p.pipe"]
    assert found(index, "event", "msg") == ["p.guard", "p.see"]


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Let threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless_threads")
def test_the_index_is_the_same_for_all_threads_that_dispatch_first() -> None:
    routes = [route(f"id.{n}", f"p.h{n}") for n in range(2000)] + [route(f"id.{n}*", f"p.g{n}") for n in range(2000)]
    for _ in range(5):
        index, barrier = RouteIndex(routes), threading.Barrier(8)
        answers: list[list[str]] = []

        def ask(index: RouteIndex = index, barrier: threading.Barrier = barrier, to: list[list[str]] = answers) -> None:
            barrier.wait()
            to.append(found(index, "pipe", "id.1999"))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [["p.h1999", "p.g1", "p.g19", "p.g199", "p.g1999"]] * 8


def test_plans_are_remembered_within_bounds() -> None:
    index = RouteIndex([route("id.*", "p.f")])
    first = index.plan("pipe", "id.0")
    assert index.plan("pipe", "id.0") is first
    for n in range(8200):
        index.plan("pipe", f"id.{n}")
    assert index.plan("pipe", "id.0") == first
    assert len(index._plans) <= 8192


@given(st.lists(STEPS, max_size=5))
def test_a_plan_survives_being_stored(steps: list[PlanStep]) -> None:
    plan = Plan.of(steps)
    again = Plan.parse(plan.text)
    assert (again.steps, again.text, again.digest) == (tuple(steps), plan.text, plan.digest)


@given(st.lists(STEPS, max_size=3), st.lists(STEPS, max_size=3))
def test_the_digest_names_the_content_of_a_plan(one: list[PlanStep], other: list[PlanStep]) -> None:
    assert (Plan.of(one).digest == Plan.of(other).digest) == (Plan.of(one).text == Plan.of(other).text)


@given(st.lists(ROUTES, max_size=5), st.integers(0, 9))
def test_a_route_table_survives_being_published(routes: list[Route], number: int) -> None:
    schedules = (Schedule("cron.at.p.f", "* * * * *", "Europe/Berlin", "once"),)
    table = RouteTable(number, tuple(routes), schedules, {"p": "1.0.0"})
    assert RouteTable.load(number, table.dump()) == table


def test_a_table_names_every_queue_once_with_the_default_one_first() -> None:
    routes = (route("a", queue="slow"), route("b", queue="heavy"), route("c", queue="slow"))
    assert RouteTable(1, routes, (), {}).queues == ("default", "heavy", "slow")
    assert RouteTable(1, (), (), {}).queues == ("default",)


def test_a_single_handler_can_be_planned_alone() -> None:
    index = RouteIndex([route("a", "p.one"), route("a", "p.two", queue="slow")])
    plan = index.single("p.two")
    assert plan is not None
    assert [(step.handler, step.queue) for step in plan.steps] == [("p.two", "slow")]
    assert index.single("p.none") is None
