"""Real processes that archive, killed again and again while runs are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lumia.history import RunFilter
from lumia.paths import base
from tasks.archive.place import Place
from tasks.archive.reader import ArchiveHistory
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport
from tests.tasks.archive.bot import drive, finished
from tests.tasks.archive.conftest import MakeArchiver

CODE = """
import sys
from pathlib import Path
from tasks.archive.archiver import Archiver
from tasks.archive.place import Place
from tasks.archive.settings import ArchiveSettings
from tasks.archive.stream import Stream
from tasks.transport import RedisTransport, connect
redis, worker, folder, url = sys.argv[1:]
settings = ArchiveSettings(max_bytes=int(20e3), hot=1e9, compact_after=0.0)
archiver = Archiver(Stream(RedisTransport(connect(redis), worker=worker)), Place(Path(folder), url), settings)
while True:
    archiver.turn()
"""


@pytest.mark.services
@pytest.mark.parametrize("with_database", [True, False])
def test_killed_archivers_lose_nothing_and_double_nothing(
    transport: RedisTransport, stream: Stream, archiver: MakeArchiver, valkey_url: str, database_url: str,
    tmp_path: Path, with_database: bool,
) -> None:  # fmt: skip
    url = database_url if with_database else ""
    runs = []
    for number in range(3):
        transport.redis.delete("lumia:journal:lease")  # that the killed one's time runs out is another test
        command = [sys.executable, "-c", CODE, valkey_url, f"h:{number}:x", str(tmp_path / "journal"), url]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(base())})
        before = stream.archived()
        while stream.archived() == before:  # it is at work: the kill comes in the middle of it
            runs.append(finished(transport, steps=2))
            assert process.poll() is None and len(runs) < 20_000
        process.kill()
        process.wait()
    transport.redis.delete("lumia:journal:lease")
    last = archiver(url, worker="h:9:x", max_bytes=100)
    drive(last)
    assert stream.measures().lag == 0
    history = ArchiveHistory(Place(tmp_path / "journal", url))
    found = history.find(RunFilter(limit=100_000))
    assert {run.run_id for run in found} == set(runs)
    assert {(run.steps, run.attempts, run.outcome) for run in found} == {(2, 2, "done")}
    for run in (*runs[:3], *runs[-30:]):
        assert [entry.kind for entry in history.entries(run)] == ["start", "step", "step", "end"]
    history.close()
