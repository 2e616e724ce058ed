"""An export carries whole run trees to another machine; what is damaged on the way is noticed, and the line named."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumia.errors import ExportError
from lumia.exports import Header, Writer, blob_digests, fingerprint, is_signed, read, write
from lumia.history import position
from lumia.journal import JournalEntry
from tests.support.stories import T0, answered

HEADER = Header("momo", "0.2.0", T0, 0.0, T0, "abcd", {"heartflow": "g1"})
DIGEST = "ab" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "incident.jsonl.gz"
    writer = Writer(path, HEADER)
    assert write(writer, [answered()[0].entries]) == 1
    writer.close()
    return path


def test_what_was_written_is_read_again(file: Path) -> None:
    export = read(file)
    assert export.header == HEADER
    assert list(export.entries) == answered()[0].entries
    assert export.history.entries(answered()[1]) == sorted(answered()[0].entries, key=position)
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_blobs_come_along_when_they_are_wanted(tmp_path: Path) -> None:
    entry = JournalEntry("step", "r", "r", detail={"box": f'{{"j":{{"media":[{{"digest":"{DIGEST}"}}]}}}}'})
    assert blob_digests(entry) == {DIGEST}
    for name, blob, kept in (("with", lambda digest: b"\x00png", {DIGEST: b"\x00png"}), ("gone", lambda _: None, {}),
                             ("without", None, {})):  # fmt: skip
        writer = Writer(tmp_path / name, HEADER)
        write(writer, [[entry], [entry]], blob)
        writer.close()
        assert read(tmp_path / name).blobs == kept


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_goes_unnoticed(file: Path, data: st.DataObject) -> None:
    whole = file.read_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    broken = file.with_name("broken.gz")
    broken.write_bytes(whole[:cut])
    with pytest.raises(ExportError, match=r"broken\.gz, line \d+: .*damaged"):
        read(broken)


LINES: list[tuple[int, Callable[[str], str], str]] = [
    (1, lambda line: '{"hello": 1}\n', "line 1: it does not begin with"),
    (1, lambda line: line.replace('"lumia_export":1', '"lumia_export":9'), "format 9 by Lumia 0.2.0"),
    (3, lambda line: line[:20] + "\n", "line 3: no JSON"),
    (4, lambda line: "[1]\n", "line 4: no JSON object"),
    (5, lambda line: '{"e": 5, "c": "1-0", "t": 1}\n', "line 5: no journal entry"),
    (6, lambda line: "", "it tells of 15 entries"),
    (7, lambda line: '{"b": "ab", "data": "!"}\n', "line 7: no blob"),
    (-1, lambda line: "", "the last line is missing"),
    (-1, lambda line: line + line, "something follows the last line"),
]


@pytest.mark.parametrize("place, change, words", LINES)
def test_a_damaged_line_is_named(file: Path, place: int, change: Callable[[str], str], words: str) -> None:
    told = gzip.decompress(file.read_bytes()).decode().splitlines(keepends=True)
    place = place - 1 if place > 0 else place
    told[place] = change(told[place])
    file.write_bytes(gzip.compress("".join(told).encode()))
    with pytest.raises(ExportError, match=words):
        read(file)


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="lumia journal export"):
        read(tmp_path / "none")
    with pytest.raises(ExportError, match="can't be written"):
        Writer(tmp_path / "no" / "folder", HEADER)


def test_an_abandoned_export_leaves_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "half", HEADER)
    writer.entry(answered()[0].entries[0])
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_values_only_the_same_secret_can_read_are_counted() -> None:
    assert is_signed(JournalEntry("step", "r", detail={"box": '{"d":"abc","t":"x"}'}))
    assert not is_signed(JournalEntry("step", "r", detail={"box": '{"j":{"d":"abc"}}'}))
    assert fingerprint(b"one") != fingerprint(b"other") and len(fingerprint(b"one")) == 16
