"""Runs are found in the journal's stream: by id at their own time, the newest from the end, in bounded batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumia.history import History, MemoryHistory, MergedHistory, RunFilter
from lumia.ids import child_id, timed_id
from lumia.journal import JournalEntry
from tasks.archive.rows import stream_row
from tasks.history import BATCH, StreamHistory
from tasks.transport import connect
from tests.support import servers

T0 = 1_700_000_000


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with servers.valkey(Path(tmp_path_factory.mktemp("valkey"))) as server:
        yield connect(server.url)


class Journal:
    """A stream that is written by hand. asked: how many rows each question gave."""

    def __init__(self, redis: Any, name: str) -> None:
        self.redis, self.name = redis, name
        self.asked: list[int] = []
        self.rows = 0
        redis.delete(name)

    def put(self, ms: int, *entries: JournalEntry) -> None:
        with self.redis.pipeline(transaction=False) as pipe:
            for entry in entries:
                self.rows += 1
                pipe.xadd(self.name, {"j": entry.dump()}, id=f"{T0 * 1000 + ms}-{self.rows}")
            pipe.execute()

    def _ask(self, command: str, *args: Any, **options: Any) -> Any:
        rows = getattr(self.redis, command)(*args, **options)
        self.asked.append(len(rows))
        return rows

    @property
    def history(self) -> StreamHistory:
        return StreamHistory(self._ask, self.name)

    @property
    def written(self) -> list[JournalEntry]:
        return [one for id_, row in self.redis.xrange(self.name) for one in stream_row(id_, row).entries()]


def run(number: int, ms: int) -> str:
    return timed_id(T0 + ms / 1000, number)


def life(run_id: str, *, outcome: str = "done", key: str = "", root: str = "") -> list[JournalEntry]:
    """Return start, step, end of a run."""
    named: dict[str, Any] = {"root_id": root or run_id, "id": "msg", "key": key}
    return [
        JournalEntry("start", run_id, flow="pipe", **named),
        JournalEntry("step", run_id, step=0, handler="a.b", outcome="next", **named),
        JournalEntry("end", run_id, outcome=outcome, **named),
    ]


@pytest.fixture(scope="module")
def written(redis: Any) -> Journal:
    """4,000 runs, one each 10 ms; every hundredth failed."""
    journal = Journal(redis, "long")
    with redis.pipeline(transaction=False) as pipe:
        for number in range(4000):
            outcome = "failed" if number % 100 == 7 else "done"
            for place, entry in enumerate(life(run(number, number * 10), outcome=outcome)):
                pipe.xadd("long", {"j": entry.dump()}, id=f"{T0 * 1000 + number * 10}-{place}")
        pipe.execute()
    return journal


@pytest.fixture
def long(written: Journal) -> Journal:
    written.asked.clear()
    return written


def test_a_run_is_found_at_its_own_time_without_reading_the_rest(long: Journal) -> None:
    wanted = run(1500, 15000)
    (found,) = long.history.find(RunFilter(runs=(wanted,)))
    assert (found.run_id, found.outcome, found.steps) == (wanted, "done", 1)
    assert [entry.kind for entry in long.history.entries(wanted)] == ["start", "step", "end"]
    assert sum(long.asked) <= 2 * 4 * BATCH


def test_the_beginning_of_an_id_is_enough(long: Journal) -> None:
    wanted = run(1500, 15000)
    assert [one.run_id for one in long.history.find(RunFilter(runs=(wanted[:9],)))][-1] <= wanted
    assert [one.run_id for one in long.history.find(RunFilter(runs=(wanted[:10],)))] == [wanted]


def test_the_newest_runs_are_listed_without_reading_the_rest(long: Journal) -> None:
    found = long.history.find(RunFilter(limit=5))
    assert [one.run_id for one in found] == [run(number, number * 10) for number in range(3999, 3994, -1)]
    assert long.asked == [BATCH]


def test_filters_go_on_reading_until_enough_is_found(long: Journal) -> None:
    failed = long.history.find(RunFilter(outcome="failed", limit=3))
    assert [one.run_id for one in failed] == [run(number, number * 10) for number in (3907, 3807, 3707)]
    assert max(long.asked) <= BATCH


def test_a_bound_in_time_ends_the_reading(long: Journal) -> None:
    found = long.history.find(RunFilter(since=T0 + 39.0, limit=1000))
    assert len(found) == 100
    assert sum(long.asked) <= 2 * BATCH


def test_an_unknown_run_is_not_found(long: Journal) -> None:
    assert long.history.find(RunFilter(runs=(timed_id(T0 + 5, 77),))) == []
    assert long.history.entries(timed_id(T0 + 5, 77)) == []


def test_a_run_of_a_clock_that_is_off_or_of_a_late_schedule_is_found_too(redis: Any) -> None:
    journal = Journal(redis, "off")
    early, late = run(1, 60_000), run(2, -7_200_000)
    journal.put(0, *life(early))
    journal.put(1000, *life(late))
    for found in (early, late):
        assert [one.run_id for one in journal.history.find(RunFilter(runs=(found,)))] == [found]
        assert len(journal.history.entries(found)) == 3


def test_a_tree_is_read_up_to_the_end_of_its_last_child(redis: Any) -> None:
    journal = Journal(redis, "tree")
    root = run(1, 0)
    child = child_id(root, 0, 0)
    begun, done = life(root), life(child, root=root)
    journal.put(0, *begun, done[0])
    for number in range(2, 900):
        journal.put(number * 100, *life(run(number, number * 100)))
    journal.put(100_000, *done[1:])
    assert [entry.run_id for entry in journal.history.entries(root)] == [root] * 3 + [child] * 3
    (whole,) = journal.history.find(RunFilter(runs=(root,), trees=True))
    assert whole.ended == T0 + 100


def test_a_dead_letter_noted_after_the_end_belongs_to_the_tree(redis: Any) -> None:
    journal = Journal(redis, "dead")
    root = run(1, 0)
    journal.put(0, *life(root, outcome="failed"), JournalEntry("dead", root, root_id=root))
    assert journal.history.entries(root)[-1].kind == "dead"
    assert journal.history.find(RunFilter(outcome="dead"))[0].dead


def test_what_became_of_a_dead_letter_long_after_is_read_only_when_asked_for(redis: Any) -> None:
    journal = Journal(redis, "late")
    root = run(1, 0)
    journal.put(0, *life(root, outcome="failed"), JournalEntry("dead", root, root_id=root, step=0))
    for number in range(2, 1200):
        journal.put(number * 100, *life(run(number, number * 100)))
    journal.put(200_000, JournalEntry("dead", root, root_id=root, step=0, outcome="retried", reason="as run x"))
    assert journal.history.entries(root)[-1].outcome == ""
    assert journal.history.entries(root, late=True)[-1].reason == "as run x"


MOMENTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2), st.sampled_from(["done", "failed"])), max_size=12)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    MOMENTS, st.integers(0, 14), st.sampled_from(["", "done", "failed", "running"]), st.booleans(), st.integers(1, 5)
)
def test_the_stream_gives_the_answers_that_its_entries_give(
    redis: Any, moments: list[tuple[int, int, str]], trimmed: int, outcome: str, trees: bool, limit: int
) -> None:
    journal = Journal(redis, "any")
    for number, (ms, children, came) in enumerate(sorted(moments)):
        root = run(number, ms)
        lives = [life(child_id(root, 0, n), root=root) for n in range(children)]
        journal.put(ms, *life(root, outcome=came), *(entry for one in lives for entry in one))
    redis.xtrim("any", maxlen=max(0, journal.rows - trimmed), approximate=False)
    wanted = RunFilter(outcome=outcome, trees=trees, limit=limit)
    assert journal.history.find(wanted) == MemoryHistory(journal.written).find(wanted)


@settings(max_examples=40)
@given(st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_a_run_whose_halves_are_kept_in_two_places_is_told_whole(first: int, last: int, trees: bool) -> None:
    root = run(1, 0)
    told = [*life(root), *life(child_id(root, 0, 0), root=root), *life(run(2, 50))]
    entries = [_at(entry, number) for number, entry in enumerate(told)]
    kept: list[History] = [MemoryHistory(entries[min(first, last) :]), MemoryHistory(entries[: max(first, last)])]
    whole, merged = MemoryHistory(entries), MergedHistory(kept)
    assert merged.entries(root) == whole.entries(root)
    for wanted in (RunFilter(trees=trees), RunFilter(outcome="done", trees=trees), RunFilter(runs=(root,))):
        assert merged.find(wanted) == whole.find(wanted)


class Counting(MemoryHistory):
    """Counts how often a tree is read."""

    read = 0

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        self.read += 1
        return super().entries(root_id, late=late)


@pytest.mark.parametrize("limit", [1, 5, 40])
def test_of_runs_whose_beginning_was_trimmed_only_those_that_are_told_are_read_again(limit: int) -> None:
    told = [entry for number in range(40) for entry in life(run(number, number * 50))]
    entries = [_at(entry, number) for number, entry in enumerate(told)]
    stream = Counting([entry for number, entry in enumerate(entries) if entry.kind != "start" or number >= 30])
    wanted = RunFilter(limit=limit)
    found = MergedHistory([stream, MemoryHistory(entries)]).find(wanted)
    assert found == MemoryHistory(entries).find(wanted)
    assert stream.read <= max(0, limit - 28), "what is newer and whole stands before them"


def test_a_row_that_can_not_be_read_hides_none_of_the_others(redis: Any) -> None:
    journal = Journal(redis, "damaged")
    journal.put(0, *life(run(1, 0)))
    for fields in ({"j": "{"}, {"j": "[]"}, {"other": "x"}):
        redis.xadd("damaged", fields)
    assert [one.run_id for one in journal.history.find(RunFilter())] == [run(1, 0)]


def _at(entry: JournalEntry, number: int) -> JournalEntry:
    return JournalEntry.load(entry.dump(), cursor=f"{T0 * 1000 + number * 10}-0", time=T0 + number / 100)
