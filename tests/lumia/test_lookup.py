"""A run is named by its id, the beginning of it, a message's id, or by being the newest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import lumia
from lumia.dead import DeadFilter, DeadLetter
from lumia.errors import UnknownRunError
from lumia.history import MemoryHistory
from lumia.journal import JournalEntry
from lumia.lookup import Found, Lookup
from lumia.ports import RunRecord
from lumia.testing import Bot, ManualClock
from lumia.verdict import verdict
from tests.support.stories import T0, Story, answered


@dataclass
class Records:
    """The records of runs that a transport would have."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    letters: tuple[DeadLetter, ...] = ()

    def run(self, run_id: str) -> RunRecord | None:
        return self.runs.get(run_id)

    def lane_holder(self, key: str) -> str:
        return f"holder of {key}"

    def dead(self, wanted: DeadFilter) -> list[DeadLetter]:
        return [letter for letter in self.letters if wanted.names(letter.name) and wanted.matches(letter)]


def record(run_id: str, state: str, box: str = "") -> RunRecord:
    return RunRecord(run_id, "pipe", "msg", "qq:1:group-7", run_id, "", state, "", "", T0, 0.0, (), (), box, 0, "a.b")


def test_a_child_leads_to_its_tree() -> None:
    story, run = answered()
    child = story.entries[-1].run_id
    assert Lookup(MemoryHistory(story.entries)).one(child) == Found(run, child)


def test_the_beginning_that_a_whole_tree_shares_stands_for_its_root() -> None:
    story, run = answered()
    assert Lookup(MemoryHistory(story.entries)).one(run[:10]) == Found(run, run)


def test_a_beginning_of_several_trees_is_refused_naming_them() -> None:
    story = Story()
    first, second = story.start(), story.start()
    with pytest.raises(UnknownRunError, match=f"2 runs begin with .*{second}, {first}"):
        Lookup(MemoryHistory(story.entries)).one(first[:9])


def test_a_message_is_found_in_the_journal_or_in_what_waits() -> None:
    story, run = answered()
    waiting = story.start(ms=5000)
    records = Records({waiting: record(waiting, "waiting", '{"j":{"message_id":"m-9"}}')})
    lookup = Lookup(MemoryHistory(story.entries), records)
    assert lookup.one("m-1") == Found(run, run)
    assert lookup.one("m-9") == Found(waiting, waiting)
    assert lookup.trace(lookup.one("m-9")).run.live.behind == "holder of qq:1:group-7"  # type: ignore[union-attr]


@pytest.mark.parametrize("target", ["m-404", "zzzz", "", "01hf7yat00zzzzzzzzzzzz", "no such id!"])
def test_what_is_not_known_is_refused_with_a_way_out(target: str) -> None:
    with pytest.raises(UnknownRunError, match="lumia runs"):
        Lookup(MemoryHistory(answered()[0].entries)).one(target)


def test_the_newest_messages_come_before_what_they_left_behind() -> None:
    story, run = answered()
    later = story.start(ms=100, key="console:console:group-7")
    free = story.start("reminder", ms=200, key="console:console:group-7")
    story.step(free, 0, "a.b", 201, cause=f"{run}/0")
    lookup = Lookup(MemoryHistory(story.entries))
    assert [found.run_id for found in lookup.newest(3, group="7")] == [later, run, free]
    with pytest.raises(UnknownRunError, match="nowhere"):
        lookup.newest(group="nowhere")


def test_a_run_of_which_only_the_record_is_left_is_still_told() -> None:
    run = answered()[1]
    lookup = Lookup(MemoryHistory([]), Records({run: record(run, "queued")}), now=T0 + 1)
    trace = lookup.trace(lookup.one(run))
    assert (trace.run.id, trace.run.state, trace.run.live.handler) == ("msg", "queued", "a.b")  # type: ignore[union-attr]


def test_the_newest_is_a_message_and_not_what_the_bus_tells_itself() -> None:
    story, run = answered()
    for number in range(60):
        story.start("bus.adapters.console.find_active", flow="event", ms=10_000 + number)
    lookup = Lookup(MemoryHistory(story.entries))
    assert lookup.newest()[0].root_id == run
    assert lookup.newest(2)[1].root_id != run


class Forgetful(MemoryHistory):
    """Tells what came long after a tree's end only when it is asked for it."""

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        found = super().entries(root_id)
        return found if late else [entry for entry in found if entry.time < T0 + 60]


@pytest.mark.parametrize("waits", [False, True])
def test_what_became_of_a_dead_letter_is_looked_for_once_it_is_gone(waits: bool) -> None:
    story = Story()
    run = story.start()
    story.tell("dead", run, 900, step=0, handler="a.b", reason="no").end(run, 900, "failed")
    story.tell("dead", run, 90_000, step=0, handler="a.b", outcome="dropped", reason="spam")
    letter = DeadLetter(run, 0, "a.b", "msg", "", "no", 1, "", T0)
    lookup = Lookup(Forgetful(story.entries), Records(letters=(letter,) * waits))
    assert [act.kind for act in lookup.trace(lookup.one(run)).run.acts] == ["dropped"] * (not waits)


def test_the_newest_is_a_run_of_the_bot_however_long_only_the_bus_has_spoken() -> None:
    story = Story()
    run = story.start("order")
    for number in range(120):
        story.start("bus.adapters.console.find_active", flow="event", ms=10_000 + number)
    assert Lookup(MemoryHistory(story.entries)).newest()[0].root_id == run


def test_a_message_whose_files_are_fetched_first_is_found_and_explained_as_one() -> None:
    @lumia.event.consumer("msg.media.toy")
    def fetch(content: lumia.Box[Any]) -> None:
        lumia.media.receive(content, lambda item, msg: b"GIF89a")

    @lumia.event.consumer("msg.toy")
    def raw(content: lumia.Box[Any]) -> None:
        pass

    @lumia.pipe.on("msg", priv=1)
    def think(content: lumia.Box[Any]) -> None:
        lumia.utils.stop("cooldown")

    media = [{"kind": "image", "ref": "f1"}]
    msg = lumia.payloads.message(platform="toy", account="main", chat={"kind": "group", "id": "7"}, sender={"id": "5"},
                                 message_id="photo-1", media=media)  # fmt: skip
    with Bot(fetch, raw, think, clock=ManualClock()) as bot:
        run = lumia.adapters.accept("toy", msg, raw={"message_id": "photo-1", "photo": "f1"})
        bot.settle(5)
        lookup = Lookup(bot.transport.history())
        assert lookup.one("photo-1") == Found(run, run)
        assert lookup.newest()[0] == Found(run, run)
        trace = lookup.trace(Found(run, run))
        assert verdict(trace.run).text == "not answered: stopped by test.think: cooldown"
        effects = [(effect.kind, effect.key) for step in trace.run.steps for effect in step.effects]
        assert (trace.run.id, effects) == ("msg.media.toy", [("http", "media 0")])


def test_a_message_leads_to_its_own_run_and_not_to_what_it_left_behind() -> None:
    clock = ManualClock()

    @lumia.pipe.on("msg")
    def hear(content: lumia.Box[Any]) -> None:
        clock.move(1)
        lumia.event.start("memory.observe", lumia.Box.any(content.into()), key="memory", detach=True)
        lumia.utils.next()

    @lumia.event.consumer("memory.observe")
    def observe(content: lumia.Box[Any]) -> None:
        pass

    with Bot(hear, observe, clock=clock) as bot:
        run = bot.send("plain and quiet", message_id="quiet-1").run_id
        bot.settle(5)
        assert Lookup(bot.transport.history()).one("quiet-1") == Found(run, run)
