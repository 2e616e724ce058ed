"""While a replay runs, nothing in the process reaches outside; afterwards everything does again."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lumia.errors import ReplayError
from lumia.replay.guard import alone, in_scratch


def reach(port: int) -> None:
    with closing(socket.socket()) as client:
        client.connect(("127.0.0.1", port))


def test_connections_names_and_programs_are_refused_and_told() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        with alone() as refused:
            with pytest.raises(ReplayError, match=r"lumia\.effect"):
                reach(port)
            with pytest.raises(ReplayError):
                socket.getaddrinfo("example.org", 80)
            with pytest.raises(ReplayError):
                subprocess.run([sys.executable, "-c", ""], check=False)
            assert refused[0] == f"connect to ('127.0.0.1', {port})"
            assert refused[1] == "look up example.org"
            assert refused[2].startswith("start the program ")
        reach(port)


def test_threads_are_guarded_too() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            reach(1)
        except BaseException as error:
            errors.append(error)

    with alone():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert isinstance(errors[0], ReplayError)


CHANGES: dict[str, Callable[[Path], object]] = {
    "open": lambda file: file.write_text("x"),
    "append": lambda file: file.open("a"),
    "update": lambda file: file.open("r+"),
    "os.open": lambda file: os.open(file, os.O_CREAT | os.O_WRONLY),
    "rename": lambda file: file.rename(file.with_name("elsewhere")),
    "replace": lambda file: os.replace(file, file.with_name("elsewhere")),
    "remove": lambda file: file.unlink(),
    "mkdir": lambda file: file.with_name("folder").mkdir(),
    "link": lambda file: os.link(file, file.with_name("elsewhere")),
    "symlink": lambda file: file.with_name("elsewhere").symlink_to(file),
    "truncate": lambda file: os.truncate(file, 0),
    "chmod": lambda file: file.chmod(0o600),
    "utime": lambda file: os.utime(file),
    "copy": lambda file: shutil.copy(file, file.with_name("elsewhere")),
    "move out": lambda file: shutil.move(file, Path(tempfile.gettempdir()) / "moved"),
    "rmtree": lambda file: shutil.rmtree(file.parent),
    "sqlite": lambda file: sqlite3.connect(file.with_name("db")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_file_is_changed_outside_of_the_scratch_folder(tmp_path: Path, change: Callable[[Path], object]) -> None:
    file = tmp_path / "kept"
    file.write_text("as it was")
    with alone() as refused, in_scratch():
        with pytest.raises(ReplayError, match=str(tmp_path)):
            change(file)
        assert refused[0].startswith(f"write {tmp_path}")
    assert file.read_text() == "as it was" and os.listdir(tmp_path) == ["kept"]
    file.write_text("and now it may")


def test_the_scratch_folder_may_be_used_and_is_gone_afterwards(tmp_path: Path) -> None:
    with alone() as refused, in_scratch():
        with tempfile.TemporaryDirectory() as folder:
            inner = Path(folder) / "a" / "b"
            inner.mkdir(parents=True)
            (inner / "file").write_text("x")
            (inner / "file").rename(inner / "other")
            shutil.copytree(inner, Path(folder) / "copy")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("x")
        assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
        Path(os.devnull).write_text("x")
        scratch = tempfile.gettempdir()
        assert refused == []
    assert not Path(scratch).exists() and tempfile.gettempdir() != scratch


def test_files_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with alone(), in_scratch():
        assert (tmp_path / "file").read_text() == "x"
