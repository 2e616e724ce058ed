"""Noticing that files were saved."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from lumia.pkg.dev.watch import Watcher, changed, footprint


def test_every_way_of_saving_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text("a = 1")
    before = footprint(tmp_path)
    file.write_text("a = 2")
    os.utime(file, ns=(1, 1))
    written = footprint(tmp_path)
    fresh = tmp_path / "fresh.py"
    fresh.write_text("a = 2")
    os.utime(fresh, ns=(1, 1))
    fresh.replace(file)  # as editors do that never leave a half-written file
    replaced = footprint(tmp_path)
    file.unlink()
    assert [changed(before, written), changed(written, replaced), changed(replaced, footprint(tmp_path))] == [
        [str(file)]
    ] * 3


def test_what_is_no_part_of_the_plugin_is_not_looked_at(tmp_path: Path) -> None:
    for name in (".git/index", "__pycache__/x.pyc", "dist/x.py", ".plugin.py.swp", "plugin.py~", "#plugin.py#"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    assert footprint(tmp_path) == {}


def test_one_save_is_told_once_with_its_files(tmp_path: Path) -> None:
    told: list[list[str]] = []
    heard = threading.Event()

    def saved(files: list[str]) -> None:
        told.append(files)
        heard.set()

    watcher = Watcher([tmp_path], saved, every=0.01)
    try:
        (tmp_path / "words.txt").write_text("x")
        assert heard.wait(10)
    finally:
        watcher.stop()
    assert told[0] == [str(tmp_path / "words.txt")]
