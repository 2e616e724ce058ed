"""The lock file: what is written can be read, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import PkgError
from lumia.pkg import lockfile
from lumia.pkg.layout import Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Locked

DICE = Locked(
    "dice", "1.2.0", "v1.2.0", "ab" * 20, "https://git.example/dice", "git", "sha256:" + "0" * 64, key="cd" * 32
)
lines = st.sampled_from(["1.0", "v1.0", "https://git.example/ü", "git@host:a b", "ä-"])
names = st.sampled_from(["dice", "memory-graph", "a", "x9"])
hexes = st.integers(0, 16**40 - 1).map("{:040x}".format)
entries = st.builds(
    Locked, names, lines, st.none() | lines, hexes, lines, st.sampled_from(["registry", "git", "folder"]),
    hexes.map(lambda text: f"sha256:{text}{'0' * 24}"), st.none() | lines, st.booleans(), st.booleans(),
    st.none() | lines,
)  # fmt: skip


@given(st.lists(entries, max_size=4))
def test_what_is_written_is_read_again(plugins: list[Locked]) -> None:
    lock = Lock({entry.name: entry for entry in plugins})
    assert lockfile.parse(lock.text()) == lock


def test_the_file_is_sorted_and_says_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    other = Locked("cards", "1.0", None, "cd" * 20, "/srv/cards", "folder", "sha256:" + "1" * 64)
    lockfile.write(tmp_path, Lock({"dice": DICE, "cards": other}))
    data = json.loads(Layout(tmp_path).lock.read_text("utf-8"))
    assert data["version"] == 1
    assert list(data["plugins"]) == ["cards", "dice"]
    assert "name" not in data["plugins"]["dice"]
    assert "signature" not in data["plugins"]["dice"]  # as in locks from before it was kept
    assert lockfile.read(tmp_path).plugins["dice"] == DICE


def test_no_file_is_an_empty_lock(tmp_path: Path) -> None:
    assert lockfile.read(tmp_path) == Lock()


@pytest.mark.parametrize(
    "change,said",
    [
        ({"commit": "HEAD"}, "plugins.dice.commit"),
        ({"url": "--upload-pack=evil"}, "plugins.dice.url"),
        ({"url": "https://x\x1b[2J"}, "plugins.dice.url"),
        ({"tag": "-x"}, "plugins.dice.tag"),
        ({"digest": "md5:0"}, "plugins.dice.digest"),
        ({"origin": "pip"}, "plugins.dice.origin"),
        ({"more": 1}, "plugins.dice.more"),
    ],
)
def test_a_field_that_is_none_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    data = json.loads(Lock({"dice": DICE}).text())
    data["plugins"]["dice"] |= change
    with pytest.raises(PkgError, match=f"theirs is no lock file: {said}"):
        lockfile.parse(json.dumps(data), "theirs")


@pytest.mark.parametrize("text", ["", "[]", '{"version": 0, "plugins": {}}', '{"plugins": {}}', "[" * 100_000])
def test_what_is_no_lock_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(PkgError, match="is no lock file"):
        lockfile.parse(text)


def test_a_name_that_leads_elsewhere_is_refused() -> None:
    data = json.loads(Lock({"dice": DICE}).text())
    data["plugins"]["../../etc"] = data["plugins"].pop("dice")
    with pytest.raises(PkgError, match="is no plugin name"):
        lockfile.parse(json.dumps(data))


def test_a_newer_format_is_told_as_such() -> None:
    with pytest.raises(PkgError, match="written by a newer Lumia"):
        lockfile.parse('{"version": 2, "plugins": {}}')


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    Layout(tmp_path).lock.write_bytes(b"\xff")
    with pytest.raises(PkgError, match="not UTF-8"):
        lockfile.read(tmp_path)
