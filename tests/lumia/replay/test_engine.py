"""Replaying with today's code: unchanged code differs in nothing, a change is found where it was made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from lumia import revival
from lumia.journal import JournalEntry
from lumia.redaction import cleaned_entry
from lumia.replay import recorded
from tests.lumia.replay import scripted
from tests.lumia.replay.scripted import replayed, told, trees

WORDS = st.sampled_from(["one", "two", "error", "a longer text"])
COMMON = st.one_of(
    st.tuples(st.just("meta"), WORDS),
    st.tuples(st.just("read"), st.sampled_from(["count", "answer-a", "chance"])),
    st.tuples(st.just("incr"), st.sampled_from(["count", "other"])),
    st.tuples(st.just("append"), st.sampled_from(["list", "count"]), WORDS),
    st.tuples(st.just("put"), WORDS),
    st.tuples(st.just("effect"), st.sampled_from(["a", "b"]), WORDS),
    st.tuples(st.just("effect caught"), st.sampled_from(["c", "d"]), WORDS),
    st.tuples(st.just("chance")),
    st.tuples(st.just("now")),
    st.tuples(st.just("send"), WORDS),
    st.tuples(st.just("detached")),
    st.tuples(st.just("twice")),
    st.tuples(st.just("later")),
    st.tuples(st.just("raise"), WORDS),
    st.tuples(st.just("fail until"), st.integers(1, 4)),
)
SCRIPT = st.lists(COMMON, max_size=4)
GOES_ON = st.sampled_from(
    [[], [("next",)], [("next",)], [("next",)], [("next later",)], [("next box", "new")], [("stop", "enough")]]
)
TOLD = st.sampled_from([[], [("event", "inner")]])


@st.composite
def contents(draw: Any) -> dict[str, Any]:
    pipe = {name: draw(SCRIPT) + draw(TOLD) + draw(GOES_ON) for name in ("first", "second", "third")}
    event = {name: draw(SCRIPT) for name in ("link", "hears", "hears_too")}
    guard = draw(st.sampled_from([[], [], [], [("intercept", "no")], [("read", "count")]]))
    more = {"link text": "changed"} if draw(st.booleans()) else {}
    return {"tag": str(draw(st.integers(0, 10**9))), **pipe, **event, "guard": guard, **more}


@settings(max_examples=60, deadline=None)
@given(st.lists(contents(), min_size=1, max_size=3))
def test_unchanged_code_differs_in_nothing(wanted: list[dict[str, Any]]) -> None:
    scripted.FAILED.clear()
    with scripted.bot() as bot:
        for content in wanted:
            bot.start("said", content, key="lane")
            bot.settle(30)
        found = trees(bot)
        calls = len(scripted.CALLS)
        done = replayed(found, bot)
    assert [(one.differences, one.skipped) for one in done] == [([], "")] * len(done)
    assert sum(one.steps for one in done) == sum(tree.steps for tree in found)
    assert len(scripted.CALLS) == calls, "a replay made a call"


def run(content: dict[str, Any], code: Any = None, *, id: str = "said", flow: str = "start") -> Any:
    """Record one run of the scripted handlers and replay it, with `code` in place of the handler of its name."""
    with scripted.bot() as bot:
        getattr(bot, flow)(id, {"tag": "x", **content})
        bot.settle(30)
        found = trees(bot)
    handlers = [one for one in scripted.HANDLERS if code is None or one.__name__ != code.__name__]
    with scripted.bot(*handlers, *([code] if code is not None else [])) as today:
        return next(one for one in replayed(found, today) if one.id == id)


def test_another_decision_is_told_with_its_way_and_what_no_longer_starts() -> None:
    @lumia.pipe.on("said", priv=3)
    def first(box: lumia.Box[Any]) -> None:
        lumia.utils.stop("not today")

    done = run({"first": [["next"]], "second": [["send", "hi ann"], ["next"]], "third": [["now"]]}, first)

    assert told(done) == [
        ("decision", "outcome", "next", "stop"),
        ("decision", "reason", "", "not today"),
        ("decision", "path", ["test.first", "test.second", "test.third"], ["test.first"]),
        ("output", "start", {"id": "msg.send, dest=1.console.private-ann", "content": "hi ann"}, None),
    ]


def test_another_text_is_told_where_it_stands_in_the_content() -> None:
    said = {"name": "ann", "mood": "bad"}

    @lumia.pipe.on("said", priv=3)
    def first(box: lumia.Box[Any]) -> None:
        content = {"tag": "x", "words": ["hello", said["name"]]}
        lumia.event.start("told", lumia.Box.any(content, meta={"mood": said["mood"]}))

    with scripted.bot(first, *scripted.HANDLERS[1:]) as then:
        then.start("said", {})
        found = trees(then)
    said.update(name="bob", mood="good")
    with scripted.bot(first, *scripted.HANDLERS[1:]) as today:
        (done,) = replayed(found, today)
    assert told(done) == [
        ("output", "start[0].content.words[1]", "ann", "bob"),
        ("output", "start[0].meta.mood", "bad", "good"),
    ]


@pytest.mark.parametrize(
    "then, now, field",
    [
        ([["incr", "count"]], [["incr", "other"]], "store[0]"),
        ([["next box", "a"]], [["next box", "b"]], "box"),
        ([["meta", "a"], ["next"]], [["next"]], "box"),
        ([["later"]], [["twice"]], "start[0] (how it is started)"),
        ([["next later"]], [["next"]], "note next_delay"),
        ([["detached"]], [], "start[0]"),
        ([], [["send", "new"]], "start[0]"),
    ],
)
def test_another_output_is_told(then: list[Any], now: list[Any], field: str) -> None:
    @lumia.pipe.on("said", priv=3, retry=scripted.QUICK)
    def first(box: lumia.Box[Any]) -> None:
        for action, *given_ in now:
            scripted.ACTIONS[action](box, box.into(), *given_)

    done = run({"first": then}, first)

    outputs = [one.field for one in done.differences if one.kind == "output" and one.step == 0]
    assert outputs[:1] == [field] or field in outputs


def test_a_call_that_was_not_recorded_is_not_made_and_ends_the_replay_of_its_run() -> None:
    @lumia.pipe.on("said", priv=3)
    def first(box: lumia.Box[Any]) -> None:
        lumia.effect("new", scripted._call, "never")
        lumia.utils.next()

    done = run({"first": [["effect", "old", "one"], ["next"]]}, first)

    assert ("not recorded", "effect call new", None, "not called when it was recorded") in told(done)
    assert ("decision", "outcome", "next", "unreplayable") in told(done)
    assert "never" not in scripted.CALLS


def test_a_call_that_is_no_longer_made_is_told() -> None:
    @lumia.pipe.on("said", priv=3)
    def first(box: lumia.Box[Any]) -> None:
        lumia.store.set("answer-old", {"answer": "one"})
        lumia.utils.next()

    done = run({"first": [["effect", "old", "one"], ["next"]]}, first)

    assert told(done) == [("output", "effect call old", "called", None)]


def test_code_that_reaches_outside_by_itself_is_refused() -> None:
    @lumia.pipe.on("said", priv=3)
    def first(box: lumia.Box[Any]) -> None:
        import socket

        socket.create_connection(("127.0.0.1", 9), timeout=1)

    done = run({"first": [["next"]]}, first)

    assert [one.field for one in done.differences if one.kind == "not recorded"] == ["connect to ('127.0.0.1', 9)"] or [
        one.field for one in done.differences if one.kind == "not recorded"
    ] == ["look up 127.0.0.1"]
    assert ("decision", "outcome", "next", "unreplayable") in told(done)


def test_a_handler_that_is_gone_or_new_is_a_difference_of_the_plan() -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "x", "first": [["next"]], "second": [["next"]], "third": [["now"]]})
        found = trees(bot)

    @lumia.pipe.on("said", priv=9)
    def added(box: lumia.Box[Any]) -> None:
        lumia.utils.next()

    handlers = [one for one in scripted.HANDLERS if one is not scripted.second]
    with scripted.bot(added, *handlers) as today:
        (done,) = replayed(found, today)
    then = ["test.first", "test.second", "test.third"]
    assert told(done) == [("decision", "plan", then, ["test.added", "test.first", "test.third"])]


def test_children_of_a_moved_step_are_still_known() -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "x", "first": [["send", "hi"], ["next"]]})
        found = trees(bot)

    @lumia.pipe.on("said", priv=9)
    def added(box: lumia.Box[Any]) -> None:
        lumia.utils.next()

    with scripted.bot(added, *scripted.HANDLERS) as today:
        (done,) = replayed(found, today)
    assert [one.field for one in done.differences] == ["plan"]
    assert done.runs == 2


def test_a_step_that_ended_by_its_limit_is_not_run_again() -> None:
    ran: list[int] = []

    @lumia.pipe.on("slow", timeout=0.05, retry=1)
    async def slow(box: lumia.Box[Any]) -> None:
        ran.append(1)
        if len(ran) == 1:
            await asyncio.Event().wait()

    with scripted.bot(slow) as bot:
        assert bot.start("slow", {}).outcome == "failed"
        (done,) = replayed(trees(bot), bot)
    assert done.differences == []
    assert ran == [1]
    assert "ended from outside" in done.notes[0]


def test_a_cancelled_run_is_replayed_as_far_as_it_went() -> None:
    @lumia.pipe.on("said", priv=3)
    def first(box: lumia.Box[Any]) -> None:
        if cancelled:
            bot.transport.cancel(cancelled.pop(), "wrong group")
        lumia.utils.next()

    cancelled: list[str] = []
    with scripted.bot(first, scripted.second) as bot:
        run_id = lumia.pipe.start("said", lumia.Box.any({"second": [["next"]]}))
        cancelled.append(run_id)
        bot.settle()
        (done,) = replayed(trees(bot), bot)
    assert done.differences == []
    assert done.steps == 1
    assert "was cancelled: wrong group" in done.notes[0]


def test_writes_the_store_refused_are_refused_again() -> None:
    with scripted.bot() as bot:
        lumia.store.of("test").append("count", 1)

        @lumia.pipe.on("said")
        def blind(box: lumia.Box[Any]) -> None:
            from lumia.context import required
            from lumia.ports import StoreOp

            required("test").writes.append(StoreOp("incr", "test//count", "1"))

    with scripted.bot(blind) as bot:
        lumia.store.of("test").append("count", 1)
        assert bot.start("said", {}).outcome == "failed"
        (done,) = replayed(trees(bot), bot)
    assert done.differences == []


@pytest.mark.parametrize("count", [1, 3])
def test_what_can_not_be_replayed_is_skipped_with_its_reason(count: int) -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "x"})
        entries = scripted.journal(bot)
        unboxed = [
            scripted.changed(entry, detail={name: v for name, v in entry.detail.items() if name != "box"})
            for entry in entries
        ]
        headless = [entry for entry in entries if entry.kind != "start"]
        for found, why in ((unboxed, "its Box is not in the journal"), (headless, "its beginning is not in")):
            (done,) = replayed(recorded(found), bot)
            assert done.skipped.startswith(why)


def test_what_it_costs_is_summed_then_and_now() -> None:
    @lumia.pipe.on("said")
    def first(box: lumia.Box[Any]) -> None:
        lumia.annotate(tokens_in=3 * price[0], tokens_out=1, cost=0.25 * price[0])

    price = [2]
    with scripted.bot(first) as bot:
        bot.start("said", {})
        found = trees(bot)
        price[0] = 1
        (done,) = replayed(found, bot)
    assert told(done) == [("cost", "cost", 0.5, 0.25), ("cost", "tokens_in", 6, 3)]
    assert (done.recorded.cost, done.replayed.cost) == (0.5, 0.25)


def test_tries_that_were_lost_with_their_worker_use_up_no_try_in_a_replay_either() -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "lost", "first": [["fail until", 3], ["next"]]})
        bot.settle(30)
        # As if the first claim of the step had died with its worker: what was committed are tries two to four.
        entries = [
            scripted.changed(entry, attempt=entry.attempt + 1)
            if entry.kind in ("step", "effect") and entry.handler == "test.first"
            else entry
            for entry in scripted.journal(bot)
        ]
        (done,) = replayed(recorded(entries), bot)
    assert (done.differences, done.steps) == ([], 4)


def test_tries_that_the_journal_tells_as_lost_are_passed_over_and_noted() -> None:
    with scripted.bot() as bot:
        bot.start("said", {"tag": "lost", "first": [["fail until", 2], ["next"]]})
        bot.settle(30)
        entries: list[JournalEntry] = []
        for entry in scripted.journal(bot):
            mine = entry.kind in ("step", "effect") and entry.handler == "test.first"
            if mine and entry.kind == "step" and entry.attempt == 1:
                lost = scripted.changed(entry, outcome="lost", reason="its worker died", ms=0.0, detail={})
                entries += [lost, scripted.changed(lost, attempt=2, reason="hung: not done in time")]
            entries.append(scripted.changed(entry, attempt=entry.attempt + 2) if mine else entry)
        (done,) = replayed(recorded(entries), bot)
    assert (done.differences, done.skipped, done.steps) == ([], "", 2)
    assert any("ended without a commit: 2 tries of test.first" in note for note in done.notes)


def test_a_run_that_was_cancelled_while_it_waited_replays_without_a_difference() -> None:
    with scripted.bot() as bot:
        run = lumia.pipe.start("said", lumia.Box.any({"first": [["next"]]}))
        bot.transport.cancel(run, "wrong group")
        (done,) = replayed(trees(bot), bot)
    assert (done.differences, done.skipped, done.runs, done.steps) == ([], "", 1, 0)
    assert "was cancelled: wrong group" in done.notes[0]


def test_a_limit_answers_in_a_replay_as_it_did() -> None:
    with scripted.bot() as bot:
        for _ in range(2):
            bot.start("said", {"first": [["limit", "mails"]]})
            bot.settle(30)
        reasons = [entry.reason for entry in scripted.journal(bot) if entry.kind == "step"]
        found = replayed(trees(bot), bot)
        assert [one.differences for one in found] == [[], []]
        assert "True" in reasons[0] and "True" not in reasons[1]


def test_a_limit_that_was_not_asked_for_then_is_not_asked_now() -> None:
    @lumia.pipe.on("said")
    def first(box: lumia.Box[Any]) -> None:
        if asks:
            lumia.limit("mails", lumia.Rate(1, per=60.0))

    asks: list[int] = []
    with scripted.bot(first) as bot:
        bot.start("said", {})
        found = trees(bot)
        asks.append(1)
        (done,) = replayed(found, bot)
    assert ("not recorded", "limit mails") in [(one.kind, one.field) for one in done.differences]


def test_a_file_that_a_handler_writes_by_itself_is_refused_and_named(tmp_path: Path) -> None:
    @lumia.pipe.on("said", retry=1)
    def first(box: lumia.Box[Any]) -> None:
        with (tmp_path / "log").open("a") as file:
            file.write("said")

    with scripted.bot(first) as bot:
        bot.start("said", {})
        (done,) = replayed(trees(bot), bot)
    assert (tmp_path / "log").read_text() == "said"
    assert (done.differences[0].kind, done.differences[0].field) == ("not recorded", f"write {tmp_path / 'log'}")
    assert done.differences[0].replayed == "refused: a replay writes nothing"


def test_a_blob_that_a_handler_keeps_is_not_kept_by_a_replay() -> None:
    @lumia.pipe.on("said")
    def first(box: lumia.Box[Any]) -> None:
        ref = lumia.blobs.put(b"hello", "text/plain")
        lumia.utils.stop(f"{lumia.blobs.get(ref)!r} {lumia.blobs.get(box.into())!r}")

    with scripted.bot(first) as bot:
        assert bot.runtime.blobs is not None
        bot.start("said", bot.runtime.blobs.put(b"sent", "text/plain").digest)
        folder = bot.runtime.blobs._folder
        kept = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
        (done,) = replayed(trees(bot), bot)
        assert done.differences == []
        assert sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) == kept


def test_a_redacted_export_is_replayed_and_says_where_that_matters() -> None:
    @lumia.pipe.on("said")
    def first(box: lumia.Box[Any]) -> None:
        lumia.utils.stop(f"{box.into()['password'] == 'hunter2'}")

    with scripted.bot(first) as bot:
        bot.start("said", {"password": "hunter2"})
        secret = bot.runtime.secret
        entries = [cleaned_entry(entry, bot.runtime.redact, secret) for entry in scripted.journal(bot)]
        (done,) = replayed(recorded(entries), bot)
    assert [(one.field, one.inexact) for one in done.differences] == [("reason", True)]
    assert "secrets were taken out of its Box" in done.notes[0]


def test_a_retried_dead_letter_goes_on_from_the_effects_of_its_first_run() -> None:
    with scripted.bot() as bot:
        script = {"tag": "dead", "first": [["next"]], "second": [["effect", "a", "one"], ["fail until", 4]]}
        bot.start("said", script)
        bot.settle(30)
        again = revival.retry(bot.runtime, bot.dead[0])
        bot.settle(30)
        found = trees(bot)
        done = {one.root_id: one for one in replayed(found, bot)}
        alone = recorded(e for e in scripted.journal(bot) if e.run_id == again)
        (skipped,) = replayed(alone, bot)
    assert [one.differences for one in done.values()] == [[], []]
    assert done[again].steps == 1
    assert "retried dead letter" in skipped.skipped
