"""Marks name the plugin whose code a process runs, and stay when the process ends during it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lumia import loading
from lumia.loading import IMPORT, Mark, amend, marked, marks, of_process

HOLDING = """
import os, sys, time
from pathlib import Path
from lumia.loading import marked
with marked(Path(sys.argv[1]), "dice", "1.0.0+abc", "import", 60.0):
    os.write(1, b"x")
    time.sleep(60)
"""


def holding(root: Path) -> subprocess.Popen[bytes]:
    """Start a process that is loading a plugin."""
    child = subprocess.Popen([sys.executable, "-c", HOLDING, str(root)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.read(1) == b"x"
    return child


def test_a_mark_tells_the_living_from_those_that_ended_during_it(tmp_path: Path) -> None:
    with holding(tmp_path) as child:
        found = of_process(tmp_path, child.pid)
        assert found is not None
        assert (found.plugin, found.version, found.doing, found.limit, found.alive) == (
            "dice", "1.0.0+abc", IMPORT, 60.0, True,
        )  # fmt: skip
        child.kill()
    assert [mark.alive for mark in marks(tmp_path, "dice")] == [False]
    assert marks(tmp_path, "dic") == []


@pytest.mark.parametrize("wish", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_ends_a_process_by_hand_leaves_no_mark(tmp_path: Path, wish: signal.Signals) -> None:
    with holding(tmp_path) as child:
        child.send_signal(wish)
    assert child.returncode == -wish
    assert marks(tmp_path) == []


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_is_raised_takes_the_mark_away(tmp_path: Path, error: type[BaseException]) -> None:
    def load() -> None:
        with marked(tmp_path, "dice", "1", IMPORT):
            assert list((tmp_path / loading.FOLDER).glob("dice.*"))
            raise error

    with pytest.raises(error):
        load()
    assert not list((tmp_path / loading.FOLDER).iterdir())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_process_does_not_see_its_own_marks_so_that_it_never_loses_their_lock(tmp_path: Path) -> None:
    with marked(tmp_path, "dice", "1", IMPORT):
        assert marks(tmp_path) == []


def test_a_mark_that_is_taken_away_while_it_is_read_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(tmp_path) as child:

        def just_then(descriptor: int, how: int) -> None:
            child.terminate()
            child.wait()

        monkeypatch.setattr("lumia.loading.fcntl.lockf", just_then)
        assert marks(tmp_path) == []


def test_a_root_that_can_not_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with marked(tmp_path, "dice", "1", IMPORT) as mark:
        assert mark is None
    assert marks(tmp_path) == []


def test_a_file_that_is_no_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / loading.FOLDER).mkdir(parents=True)
    for number, text in enumerate(("", "[]", '{"plugin": 1}', "\x00")):
        (tmp_path / loading.FOLDER / f"dice.{os.getppid()}-x-{number}.json").write_text(text)
    assert marks(tmp_path) == []


def test_processes_that_amend_a_mark_at_once_leave_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / loading.FOLDER).mkdir(parents=True)
    mark = Mark("dice", "1.0.0+abc", IMPORT, 7, 1.0, file=folder / "dice.7-x-1.json")
    replace = os.replace

    def meanwhile(written: Path, file: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(os, "getpid", lambda: 8)
        amend(mark, ended="SIGSEGV")
        replace(written, file)

    monkeypatch.setattr(os, "replace", meanwhile)
    amend(mark, ended="exit code 1")
    assert [one.ended for one in marks(tmp_path)] == ["exit code 1"]
    assert [one.name for one in folder.iterdir()] == [mark.file.name]
