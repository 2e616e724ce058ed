"""The archiver over a real Valkey and a real Postgres."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lumia.errors import BackendUnavailableError
from lumia.journal import JournalEntry
from lumia.ports import Limits
from tasks.archive.archiver import AWAY, FULL
from tasks.archive.database import Database
from tasks.archive.place import Place
from tasks.archive.reader import ArchiveHistory
from tasks.archive.rows import START
from tasks.archive.spill import Spill
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport
from tests.tasks.archive.bot import all_entries, drive, finished
from tests.tasks.archive.conftest import MakeArchiver

NOWHERE = "postgresql://lumia:x@127.0.0.1:9/lumia"


@pytest.fixture
def spill(tmp_path: Path) -> Spill:
    return Spill(tmp_path / "journal")


@pytest.fixture
def history(database_url: str, tmp_path: Path) -> Iterator[ArchiveHistory]:
    found = ArchiveHistory(Place(tmp_path / "journal", database_url))
    yield found
    found.close()


def archived(history: ArchiveHistory, runs: list[str]) -> list[JournalEntry]:
    return [entry for run in runs for entry in history.entries(run)]


def test_everything_in_the_journal_comes_to_the_database_as_it_was(
    transport: RedisTransport, archiver: MakeArchiver, history: ArchiveHistory
) -> None:
    runs = [finished(transport, steps=2, key=f"web:a:group-{n}") for n in range(5)]
    before = all_entries(transport)
    drive(archiver())
    assert archived(history, runs) == before
    assert len(all_entries(transport)) == 2  # a step and the end in one row: the newest stays, cursors count from it


def test_what_is_archived_stays_in_the_stream_for_the_hot_window(
    transport: RedisTransport, archiver: MakeArchiver, stream: Stream
) -> None:
    finished(transport)
    before = all_entries(transport)
    drive(archiver(hot=3600.0))
    assert all_entries(transport) == before
    assert stream.measures().lag == 0 and stream.archived() == before[-1].cursor


class Killed(Exception):
    """Stands for SIGKILL: nothing after it is executed."""


@pytest.mark.parametrize("at", ["write", "advance", "compact", "set_compacted", "trim"])
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(
    transport: RedisTransport, archiver: MakeArchiver, history: ArchiveHistory, monkeypatch: pytest.MonkeyPatch,
    at: str, after: bool,
) -> None:  # fmt: skip
    runs = [finished(transport, steps=2) for _ in range(3)]
    before = all_entries(transport)
    victim: Any = archiver()
    target = victim._database if at == "write" else victim._stream
    original = getattr(target, at)

    def killed(*args: Any, **options: Any) -> None:
        if after:
            original(*args, **options)
        raise Killed

    monkeypatch.setattr(target, at, killed)
    with pytest.raises(Killed):
        drive(victim)
    transport.redis.delete("lumia:journal:lease")  # its time is over
    runs.append(finished(transport))
    before += [entry for entry in all_entries(transport) if entry.run_id == runs[-1]]
    drive(archiver(worker="host:3:cc"))
    assert archived(history, runs) == before
    record = transport.run(runs[0])
    assert record is not None and record.finished and record.steps == ()


def test_one_process_archives_at_a_time(transport: RedisTransport, archiver: MakeArchiver, stream: Stream) -> None:
    first, second = archiver(), archiver(worker="host:3:cc")
    first.turn()
    finished(transport)
    assert second.turn() > 0 and stream.archived() == START
    first.close()
    drive(second)
    assert stream.measures().lag == 0


def test_entries_wait_in_the_stream_while_the_database_is_away(
    transport: RedisTransport, archiver: MakeArchiver, stream: Stream, spill: Spill
) -> None:
    finished(transport)
    before = all_entries(transport)
    drive(archiver(NOWHERE))
    assert all_entries(transport) == before and spill.files() == [] and stream.measures().alarms == ()


def test_past_the_soft_limit_they_go_to_files_which_are_loaded_when_the_database_is_back(
    transport: RedisTransport, archiver: MakeArchiver, stream: Stream, spill: Spill, history: ArchiveHistory
) -> None:
    runs = [finished(transport) for _ in range(40)]
    before = all_entries(transport)
    away = archiver(NOWHERE, max_bytes=4000)
    drive(away)
    assert spill.files() and [alarm.name for alarm in stream.measures().alarms] == [AWAY]
    assert stream.bytes() < 4000 and archived(history, runs) == before
    away.close()
    drive(archiver(max_bytes=4000))
    assert spill.files() == [] and stream.measures().alarms == ()
    assert archived(history, runs) == before


def test_without_a_database_the_files_are_the_archive(
    transport: RedisTransport, archiver: MakeArchiver, spill: Spill, tmp_path: Path
) -> None:
    runs = [finished(transport) for _ in range(40)]
    before = all_entries(transport)
    drive(archiver("", max_bytes=4000))
    finished(transport)
    history = ArchiveHistory(Place(tmp_path / "journal"))
    files = archived(history, runs)
    assert files == before[: len(files)] and len(files) > 100 and spill.size() > 0


def test_files_past_their_limit_are_dropped_with_a_gap_and_an_alarm(
    transport: RedisTransport, archiver: MakeArchiver, stream: Stream, spill: Spill
) -> None:
    one: Any = archiver("", max_bytes=4000, spill_bytes=1500)
    for _ in range(6):
        for _ in range(20):
            finished(transport)
        drive(one)
    assert spill.size() < 4000 and FULL in [alarm.name for alarm in stream.measures().alarms]
    rows = [entry for file in spill.files() for row in file.rows() for entry in row.entries()]
    assert any(entry.kind == "gap" and entry.detail["entries"] > 0 for entry in [*rows, *all_entries(transport)])


def test_a_disk_that_takes_no_file_is_an_alarm_and_nothing_is_lost(
    transport: RedisTransport, archiver: MakeArchiver, stream: Stream, tmp_path: Path
) -> None:
    for _ in range(40):
        finished(transport)
    before = all_entries(transport)
    (tmp_path / "journal").write_text("no folder")
    drive(archiver("", max_bytes=4000))
    assert [alarm.name for alarm in stream.measures().alarms] == ["journal archive"]
    assert all_entries(transport) == before


def test_a_damaged_file_stands_in_nobodys_way(
    transport: RedisTransport, archiver: MakeArchiver, stream: Stream, spill: Spill
) -> None:
    spill.folder.mkdir()
    (spill.folder / "spill-1-0-2-0.jsonl.gz").write_bytes(b"no gzip")
    finished(transport)
    drive(archiver())
    assert spill.files() == [] and stream.measures().lag == 0
    assert [alarm.name for alarm in stream.measures().alarms] == [FULL]


def test_a_row_that_is_no_entry_is_passed_over(
    transport: RedisTransport, archiver: MakeArchiver, history: ArchiveHistory, stream: Stream
) -> None:
    transport.redis.xadd("lumia:journal", {"j": "{not json"})
    transport.redis.xadd("lumia:journal", {"other": "x"})
    run = finished(transport)
    drive(archiver())
    assert [entry.kind for entry in history.entries(run)] == ["start", "step", "end"] and stream.measures().lag == 0


def test_texts_that_no_database_takes_are_archived_all_the_same(
    transport: RedisTransport, archiver: MakeArchiver, history: ArchiveHistory, stream: Stream
) -> None:
    stream.note(JournalEntry("effect", "odd", "odd", "id\x00", "key\ud800", reason="a\x00b", detail={"box": "c\x00"}))
    drive(archiver())
    (entry,) = history.entries("odd")
    assert (entry.id, entry.key, entry.reason) == ("id\x00", "key\ud800", "a\x00b")


def test_old_entries_and_runs_are_forgotten(
    transport: RedisTransport, archiver: MakeArchiver, history: ArchiveHistory, database_url: str
) -> None:
    run = finished(transport)
    drive(archiver())
    assert history.entries(run)
    later: Any = archiver(worker="host:3:cc", keep=-10.0)
    transport.redis.delete("lumia:journal:lease")
    drive(later)
    later._forget = 0.0
    drive(later)
    assert history.entries(run) == []
    assert later._database.rows("SELECT run_id FROM lumia.runs", ()) == []


def test_a_database_that_takes_no_connection_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://lumia:x@127.0.0.1:{silent.getsockname()[1]}/lumia?connect_timeout=1"
        with pytest.raises(BackendUnavailableError, match="does not answer"):
            Database(url).rows("SELECT 1", ())


def test_a_database_that_freezes_is_away_and_comes_back(database_url: str) -> None:
    database = Database(database_url, limit=0.5)
    backend = database.rows("SELECT pg_backend_pid() AS pid", ())[0]["pid"]
    os.kill(backend, signal.SIGSTOP)
    try:
        with pytest.raises(BackendUnavailableError, match="does not answer"):
            database.rows("SELECT 1", ())
    finally:
        os.kill(backend, signal.SIGCONT)
    assert database.rows("SELECT 1 AS one", ()) == [{"one": 1}]
    database.close()


def test_tables_of_a_newer_version_are_refused(database_url: str) -> None:
    database = Database(database_url)
    database.rows("SELECT 1", ())
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE lumia.schema_version SET version = 99 WHERE part = 'journal'")
    database.close()
    with pytest.raises(BackendUnavailableError, match="newer Lumia"):
        database.rows("SELECT 1", ())


def test_a_closed_archiver_lets_another_one_go_on_at_once(archiver: MakeArchiver, transport: RedisTransport) -> None:
    first = archiver()
    first.turn()
    first.close()
    assert transport.redis.get("lumia:journal:lease") is None


def test_the_hard_limit_holds_whoever_sleeps(transport: RedisTransport, stream: Stream) -> None:
    transport.limits = Limits(journal_bytes=6000)
    for _ in range(200):
        finished(transport)
        assert stream.bytes() <= 6000
    entries = all_entries(transport)
    gaps = [entry for entry in entries if entry.kind == "gap"]
    assert gaps and gaps[-1].outcome == "dropped" and gaps[-1].detail["entries"] > 0
    (alarm,) = stream.measures().alarms
    assert alarm.name == "journal full" and "dropped" in alarm.what and "hard_bytes" in alarm.fix
