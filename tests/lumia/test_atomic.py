"""Replacing files atomically and locking folders."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lumia.atomic import LOCK_NAME, locked, replace


def test_a_new_file_gets_the_mode_asked_for(tmp_path: Path) -> None:
    replace(tmp_path / "a", b"x", mode=0o600)
    assert (tmp_path / "a").read_bytes() == b"x"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_replaced_file_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 1234, 1234)
    before = path.stat()
    replace(path, b"new")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert path.read_bytes() == b"new"


def test_what_a_killed_process_left_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_bytes(b"half")
    replace(tmp_path / "a", b"whole")
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_a_link_planted_as_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / ".a.tmp").symlink_to("victim")
    replace(tmp_path / "a", b"x")
    assert (tmp_path / "victim").read_bytes() == b"mine"


def test_a_failed_write_leaves_the_file_and_no_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "inner").touch()
    with pytest.raises(OSError, match="directory"):
        replace(tmp_path / "a", b"x")
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_the_lock_keeps_others_out_until_it_is_released(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(TimeoutError, match="another process keeps the lock"), locked(tmp_path, timeout=0.02):
            pytest.fail("two hold the lock")
        assert (tmp_path / LOCK_NAME).exists()
    with locked(tmp_path, timeout=0):
        pass


def test_a_waiting_writer_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with locked(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path):
        thread.start()
        waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    with locked(tmp_path, timeout=0):
        pass
