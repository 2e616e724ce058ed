"""The history of archived runs, from the database and from files: the same answers as from the entries themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lumia.history import MemoryHistory, RunFilter
from lumia.journal import JournalEntry
from lumia.system import new_id
from tasks.archive.database import Database
from tasks.archive.place import Place
from tasks.archive.reader import ArchiveHistory
from tasks.archive.rows import StreamRow
from tasks.archive.spill import Spill

T0 = 1_800_000_000_000


def story(number: int) -> list[JournalEntry]:
    """Return the entries of a message's tree: a pipeline that asks a model, and the reply it starts."""
    root, child, ms = new_id(), new_id(), T0 + number * 1000
    key = f"telegram:bot:group-{number % 3}"
    box = f'{{"j":{{"message_id":"m{number}","text":"100 % sure_"}}}}'

    def entry(kind: str, after: int, run: str = root, **more: Any) -> JournalEntry:
        id = "msg" if run == root else "msg.send"
        values: dict[str, Any] = {
            "root_id": root,
            "id": id,
            "key": key,
            "cursor": f"{ms + after}-0",
            "time": (ms + after) / 1000,
            **more,
        }
        return JournalEntry(kind, run, **values)

    worker: dict[str, Any] = {"worker": "h:1:a", "attempt": 1, "ms": 1.5}
    outcome = ("done", "failed", "stopped")[number % 3]
    told = [
        entry("start", 0, flow="pipe"),
        entry(
            "effect", 1, step=0, outcome="done", detail={"effect": "ask", "tokens_in": 7, "tokens_out": 2, "cost": 0.25}
        ),
        entry("step", 2, step=0, handler="p.a", outcome="retry", detail={"box": box}, **worker),
        entry("step", 3, step=0, handler="p.a", outcome="next", **worker),
        entry("start", 4, run=child, flow="event", detail={"cause": f"{root}/0"}),
        entry("end", 5, outcome=outcome, reason="because"),
        entry("step", 6, run=child, step=0, handler="q.b", outcome="next", detail={"box": '{"j":2}'}, **worker),
    ]
    if outcome == "failed":
        told.insert(5, entry("dead", 4, step=0, handler="p.a", reason="broken", attempt=1, cursor=f"{ms + 4}-1"))
    return told if number % 4 == 0 else [*told, entry("end", 7, run=child, outcome="done")]


def rows(entries: list[JournalEntry]) -> list[StreamRow]:
    return [StreamRow(entry.cursor, {"j": entry.dump()}) for entry in entries]


STORIES = [story(number) for number in range(12)]
ENTRIES = [entry for told in STORIES for entry in told]
FILTERS = [
    RunFilter(), RunFilter(limit=3), RunFilter(trees=True), RunFilter(trees=True, outcome="dead"),
    RunFilter(outcome="failed"), RunFilter(outcome="running"), RunFilter(outcome="dead"),
    RunFilter(trees=True, outcome="running"),
    RunFilter(id="msg"), RunFilter(id="msg*"), RunFilter(id="*.send"), RunFilter(id="m_g"), RunFilter(group="1"),
    RunFilter(group="group-2"), RunFilter(group="telegram:bot:group-0"), RunFilter(group="oup-0"),
    RunFilter(runs=(ENTRIES[0].run_id,)), RunFilter(runs=(ENTRIES[0].run_id[:8],)), RunFilter(runs=("%",)),
    RunFilter(since=T0 / 1000 + 3, until=T0 / 1000 + 6), RunFilter(message="m4"), RunFilter(message="m4", trees=True),
    RunFilter(limit=0),
]  # fmt: skip


@pytest.fixture(params=["database", "files", "both"])
def history(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[ArchiveHistory]:
    """All stories, kept by the database, by files, or the newer half of the rows in files still."""
    spill, half = Spill(tmp_path / "journal"), len(ENTRIES) // 2 + 1
    url = "" if request.param == "files" else database_url
    if request.param == "files":
        for start in range(0, len(ENTRIES), 10):
            spill.write(rows(ENTRIES[start : start + 10]))
    else:
        database = Database(url)
        for part in (ENTRIES if request.param == "database" else ENTRIES[:half],):
            for start in range(0, len(part), 9):
                database.write(rows(part[start : start + 9]))
        database.close()
    if request.param == "both":
        spill.write(rows(ENTRIES[half - 5 :]))
    found = ArchiveHistory(Place(tmp_path / "journal", url))
    yield found
    found.close()


def test_every_filter_gives_what_the_entries_themselves_say(history: ArchiveHistory) -> None:
    plain = MemoryHistory(ENTRIES)
    for wanted in FILTERS:
        assert history.find(wanted) == plain.find(wanted), wanted


def test_a_tree_comes_back_whole_and_in_order(history: ArchiveHistory) -> None:
    for told in STORIES:
        assert history.entries(told[0].run_id) == told
    assert history.entries("unknown") == []


def test_rows_that_come_twice_or_out_of_order_give_the_same_runs(database_url: str, tmp_path: Path) -> None:
    database = Database(database_url)
    parts = [rows(ENTRIES[start : start + 7]) for start in range(0, len(ENTRIES), 7)]
    for part in [*reversed(parts), *parts[::2]]:
        database.write(part)
    database.close()
    history = ArchiveHistory(Place(tmp_path, database_url))
    assert history.find(RunFilter(limit=99)) == MemoryHistory(ENTRIES).find(RunFilter(limit=99))
    history.close()


def test_a_run_is_summed_up_from_what_was_known_of_it_and_its_new_entries_alone(
    database_url: str, tmp_path: Path
) -> None:
    database, history = Database(database_url), ArchiveHistory(Place(tmp_path, database_url))
    for entry in ENTRIES:
        database.write(rows([entry, entry]))
        database.rows("DELETE FROM lumia.entries RETURNING ms", ())  # so nothing else is left to sum up
    assert history.find(RunFilter(limit=99)) == MemoryHistory(ENTRIES).find(RunFilter(limit=99))
    assert [run.run_id for run in history.find(RunFilter(message="m4"))] == [STORIES[4][0].run_id]
    database.close()
    history.close()


def test_lines_that_were_written_without_sums_are_made_from_all_entries(database_url: str, tmp_path: Path) -> None:
    database, half = Database(database_url), len(ENTRIES) // 2 + 1
    database.write(rows(ENTRIES[:half]))
    database.rows("UPDATE lumia.runs SET sums = NULL RETURNING run_id", ())
    for entry in ENTRIES[half:]:
        database.write(rows([entry]))
    database.close()
    history = ArchiveHistory(Place(tmp_path, database_url))
    assert history.find(RunFilter(limit=99)) == MemoryHistory(ENTRIES).find(RunFilter(limit=99))
    history.close()


def test_more_than_a_page_of_runs_is_found(database_url: str, tmp_path: Path) -> None:
    told = [entry for number in range(260) for entry in story(number)]
    database = Database(database_url)
    database.write(rows(told))
    database.close()
    history = ArchiveHistory(Place(tmp_path, database_url))
    assert len(history.find(RunFilter(limit=1000))) == 520
    assert len(history.find(RunFilter(trees=True, outcome="running", limit=1000))) == 65
    history.close()
