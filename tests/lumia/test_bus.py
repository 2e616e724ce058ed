"""Starting runs, from handlers and from outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.bus import TICKS, check_name, cron_id, event_id
from lumia.errors import ArcError, BoxError, NotRunningError, PayloadError, StaleRoutesError
from lumia.marks import is_name, marks_on
from lumia.testing import Bot, ManualClock

Boxed = lumia.Box[Any]


@lumia.pipe.on("msg")
def takes(content: Boxed) -> None:
    lumia.store.append("seen", content.into())


@lumia.event.consumer("msg")
def hears(content: Boxed) -> None:
    lumia.store.append("heard", content.into())


def seen(key: str = "seen") -> list[Any]:
    return lumia.store.of("test").items(key)


def test_without_a_bot_nothing_can_be_started() -> None:
    with pytest.raises(NotRunningError, match="no bot is active"):
        lumia.pipe.start("msg", lumia.Box.any(1))


def test_outside_of_handlers_a_run_is_accepted_at_once() -> None:
    with Bot(takes, hears) as bot:
        run_id = lumia.pipe.start(id="msg", content=lumia.Box.any("hi"))
        record = bot.transport.run(run_id)
        assert record is not None and (record.flow, record.state, record.root_id) == ("pipe", "queued", run_id)
        bot.settle()
        assert (seen(), seen("heard")) == (["hi"], [])
        lumia.event.start("msg", lumia.Box.any("ho"))
        bot.settle()
        assert (seen(), seen("heard")) == (["hi"], ["ho"])


@pytest.mark.parametrize("wrong", ["", "a\nb", "\ud800", "x" * 513, None, 5])
def test_an_id_is_printable_text(wrong: Any) -> None:
    with Bot(takes), pytest.raises(PayloadError, match="id must be 1 to 512 printable characters"):
        lumia.pipe.start(wrong, lumia.Box.any(1))


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=600))
def test_a_refused_name_is_shown_in_short(text: str) -> None:
    if is_name(text):
        assert check_name("id", text) == text
        return
    with pytest.raises(PayloadError) as refused:
        check_name("id", text)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("wrong", [{"bare": "dict"}, None, "text", lumia.Box])
def test_content_is_a_box(wrong: Any) -> None:
    with Bot(takes), pytest.raises(BoxError, match=r"Box\.any"):
        lumia.pipe.start("msg", wrong)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"key": "a\x00"}, "key must be"),
        ({"key": 0}, "key must be"),
        ({"dedup": 5}, "dedup must be"),
        ({"dedup": "\ud800"}, "dedup must be"),
        ({"delay": -1}, "delay is seconds"),
        ({"delay": float("nan")}, "delay is seconds"),
        ({"delay": 10**9}, "delay is seconds"),
        ({"delay": "1"}, "delay is seconds"),
        ({"delay": None}, "delay is seconds"),
        ({"priority": 5}, "priority is one of"),
        ({"priority": False}, "priority is one of"),
        ({"also": [("", lumia.Box.any(1))]}, "id must be"),
    ],
)
def test_options_that_can_not_be_kept_are_refused_and_nothing_is_started(options: dict[str, Any], match: str) -> None:
    with Bot(takes, hears) as bot:
        with pytest.raises(PayloadError, match=match):
            lumia.pipe.start("msg", lumia.Box.any(1), **options)
        bot.settle()
        assert bot.transport.cursor() == "0"


def test_an_empty_key_or_dedup_means_none() -> None:
    with Bot(takes) as bot:
        first, second = (bot.start("msg", n, key="", dedup="") for n in (1, 2))
        assert first.run_id != second.run_id and seen() == [1, 2]


def test_urgent_runs_are_served_first() -> None:
    with Bot(takes) as bot:
        for priority in (9, 3, 0, 6, None):
            lumia.pipe.start("msg", lumia.Box.any(priority), priority=priority)
        bot.settle()
        assert seen() == [0, 3, None, 6, 9]


def test_twins_are_accepted_with_their_run_or_not_at_all() -> None:
    with Bot(takes, hears) as bot:
        twin = [("msg", lumia.Box.any("twin"))]
        first = lumia.pipe.start("msg", lumia.Box.any("one"), dedup="once", also=twin)
        second = lumia.pipe.start("msg", lumia.Box.any("two"), dedup="once", also=twin)
        bot.settle()
        assert first == second
        assert (seen(), seen("heard")) == (["one"], ["twin"])


def test_a_delayed_run_begins_when_it_is_due() -> None:
    with Bot(takes, clock=ManualClock()) as bot:
        run = bot.start("msg", 1, delay=60)
        assert run.outcome is None
        bot.settle(59)
        assert seen() == []
        bot.settle(1)
        assert seen() == [1]


# --- in a handler


def test_a_step_that_fails_starts_nothing() -> None:
    @lumia.pipe.on("parent", retry=1)
    def parent(content: Boxed) -> None:
        lumia.pipe.start("msg", lumia.Box.any(1), also=[("msg", lumia.Box.any(2))])
        raise RuntimeError("after all")

    with Bot(parent, takes, hears) as bot:
        bot.start("parent", 0)
        assert seen() == seen("heard") == []


def test_a_retry_makes_the_same_children() -> None:
    ids: list[list[str]] = []

    @lumia.pipe.on("parent", retry=lumia.Retry(backoff=0))
    def parent(content: Boxed) -> None:
        ids.append([lumia.pipe.start("msg", lumia.Box.any(n), also=[("msg", content)]) for n in range(3)])
        if len(ids) < 3:
            raise RuntimeError("not yet")

    with Bot(parent, takes, hears) as bot:
        run = bot.start("parent", 0)
        assert ids[0] == ids[1] == ids[2] and len(set(ids[0])) == 3
        assert sorted(seen()) == [0, 1, 2] and len(seen("heard")) == 3
        record = bot.transport.run(run.run_id)
        assert record is not None and len(record.children) == 6


def test_a_child_belongs_to_its_parents_tree_lane_and_priority() -> None:
    @lumia.pipe.on("parent")
    def parent(content: Boxed) -> None:
        lumia.pipe.start("msg", content)
        lumia.pipe.start("msg", content, detach=True)
        lumia.pipe.start("msg", content, detach=True, key="another", priority=0)

    with Bot(parent, takes) as bot:
        run_id = lumia.pipe.start("parent", lumia.Box.any(0), key="lane", priority=9)
        bot.settle()
        record = bot.transport.run(run_id)
        assert record is not None
        runs = [bot.transport.run(child) for child in record.children]
        assert [(run.key, run.root_id == run_id, run.cause) for run in runs if run] == [
            ("lane", True, f"{run_id}/0"), ("lane", False, f"{run_id}/0"), ("another", False, f"{run_id}/0"),
        ]  # fmt: skip


def test_a_child_without_a_lane_may_ask_for_one_and_its_own_children_stay_in_it() -> None:
    @lumia.pipe.on("parent")
    def parent(content: Boxed) -> None:
        lumia.pipe.start("child", content, key="lane")

    @lumia.pipe.on("child")
    def child(content: Boxed) -> None:
        lumia.pipe.start("msg", content, key="another")

    with Bot(parent, child, takes) as bot:
        run = bot.start("parent", 0)
        failed = run.steps[-1]
        assert (failed.handler, failed.outcome) == ("test.child", "failed")
        assert all(text in failed.reason for text in ("'lane'", "'another'", "detach=True"))


def test_thousands_of_children_are_started_by_one_commit() -> None:
    @lumia.pipe.on("parent")
    def parent(content: Boxed) -> None:
        for n in range(3000):
            lumia.event.start("child", lumia.Box.any(n))

    @lumia.event.consumer("child")
    def child(content: Boxed) -> None:
        COUNTED.append(content.into())

    COUNTED.clear()
    with Bot(parent, child) as bot:
        run = bot.start("parent", 0)
        assert run.outcome == "done" and len(run.steps) == 3001
        assert list(range(3000)) == COUNTED


COUNTED: list[int] = []


def test_handlers_that_start_each_other_for_ever_are_noticed() -> None:
    @lumia.pipe.on("again")
    def again(content: Boxed) -> None:
        lumia.pipe.start("again", content, detach=True)

    with Bot(again) as bot:
        lumia.pipe.start("again", lumia.Box.any(1))
        with pytest.raises(lumia.errors.RunTimeoutError, match="start each other for ever"):
            bot.transport.drain(bot.runtime, limit=50)


# --- plans and routes


def test_a_plan_made_with_old_routes_is_made_again() -> None:
    with Bot(takes) as bot:
        table = bot.transport.routes()
        assert table is not None
        late = replace(table.routes[0], id="late", handler="test.takes")
        bot.transport.publish(replace(table, routes=(*table.routes, late)))
        assert bot.start("late", 1).outcome == "done"
        assert seen() == [1]


def test_routes_that_change_all_the_time_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with Bot(takes) as bot:

        def restless(*args: Any, **options: Any) -> Any:
            raise StaleRoutesError("changed again")

        monkeypatch.setattr(bot.transport, "start", restless)
        with pytest.raises(StaleRoutesError, match="changed 8 times"):
            lumia.pipe.start("msg", lumia.Box.any(1))


# --- live resources


def box() -> lumia.Box[Any]:
    return lumia.Box.any(open(__file__))


def test_a_live_resource_is_used_here_and_now_and_closed_after_the_run() -> None:
    @lumia.pipe.on("file")
    def reads(content: Boxed) -> None:
        files.append(content.into())
        lumia.store.set("first", content.into().read(3))

    files: list[Any] = []
    with Bot(reads):
        lumia.pipe.start("file", box())
        assert lumia.store.of("test").get("first") == '"""'
        assert files[0].closed


def test_twins_with_live_resources_are_used_too() -> None:
    @lumia.event.consumer("file")
    def reads(content: Boxed) -> None:
        lumia.store.append("read", content.into().read(3))

    with Bot(reads) as bot:
        run_id = lumia.event.start("nobody", lumia.Box.any(1), also=[("file", box()), ("file", box())])
        assert lumia.store.of("test").items("read") == ['"""', '"""']
        assert bot.transport.run(run_id) is not None


def test_a_duplicate_does_not_use_its_resource() -> None:
    @lumia.event.consumer("file")
    def reads(content: Boxed) -> None:
        lumia.store.incr("read")

    with Bot(reads):
        runs = {lumia.event.start("file", box(), dedup="once") for _ in range(3)}
        assert len(runs) == 1
        assert lumia.store.of("test").get("read") == 1


def test_a_live_resource_does_not_wait() -> None:
    with Bot(takes), pytest.raises(ArcError, match="here and now"):
        lumia.pipe.start("msg", box(), delay=1)


def test_a_live_resource_does_not_go_to_another_queue_or_process() -> None:
    @lumia.pipe.on("far", queue="slow")
    def far(content: Boxed) -> None:
        """Run elsewhere."""

    with Bot(far, takes) as bot:
        with pytest.raises(ArcError, match=r"test\.far, which runs on another queue"):
            lumia.pipe.start("far", box())
        bot.runtime.handlers.clear()
        with pytest.raises(ArcError, match=r"test\.takes, not loaded here"):
            lumia.pipe.start("msg", box())


def test_in_a_handler_a_live_resource_can_not_be_deduplicated() -> None:
    @lumia.pipe.on("parent")
    def parent(content: Boxed) -> None:
        lumia.pipe.start("msg", box(), dedup="once")

    with Bot(parent, takes) as bot:
        assert "leave out dedup" in bot.start("parent", 1).reason


def test_a_live_resource_for_nobody_is_simply_released() -> None:
    with Bot(takes) as bot:
        run = bot.start("nobody", box())
        assert (run.outcome, run.reason) == ("done", "no handler")


# --- cron


def test_a_cron_handler_listens_to_an_event_of_its_own() -> None:
    @lumia.cron("0 9 * * *", tz="Europe/Berlin", missed="once", queue="slow", retry=2, timeout=5, hard=True)
    def mornings(content: Boxed) -> None:
        """Wake up."""

    (mark,) = marks_on(mornings)
    assert event_id(mark, "p.mornings") == cron_id("p.mornings") == "cron.at.p.mornings"
    assert dict(mark.options) == {
        "tz": "Europe/Berlin", "missed": "once", "queue": "slow", "retry": 2, "timeout": 5, "hard": True,
    }  # fmt: skip


def test_schedules_and_built_in_ticks_are_in_the_published_table(tmp_path: Path) -> None:
    @lumia.cron("*/10 8-22 * * *")
    def often(content: Boxed) -> None:
        lumia.store.set("due", content.into()["due"])

    with Bot(often, root=tmp_path) as bot:
        named = {schedule.name: schedule for schedule in bot.table.schedules}
        assert set(TICKS) <= set(named)
        mine = named["cron.at.test.often"]
        assert (mine.expression, mine.tz, mine.missed) == ("*/10 8-22 * * *", "UTC", "skip")
        assert bot.event("cron.at.test.often", {"schedule": mine.name, "due": 60}).outcome == "done"
        assert lumia.store.of("test").get("due") == 60


def test_a_long_delay_inside_a_lane_is_refused_because_the_lane_would_wait() -> None:
    def remind(content: lumia.Box[Any]) -> None:
        lumia.event.start("later", content, delay=content.into()["delay"], detach=content.into()["detach"])

    marked = lumia.pipe.on("remind")(remind)
    with Bot(marked) as bot:
        refused = bot.start("remind", {"delay": 3600, "detach": False}, key="group")
        assert refused.outcome == "failed" and "detach=True" in refused.reason
        assert bot.start("remind", {"delay": 5, "detach": False}, key="other").reason == ""
        assert bot.start("remind", {"delay": 3600, "detach": True}, key="third").outcome == "done"
