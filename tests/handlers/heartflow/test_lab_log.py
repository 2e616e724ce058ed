"""Reading a group log: what is taken, and what is said about one that can't be read."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import lumia
from handlers.heartflow.lab_log import LogError, groups, read
from lumia.exports import Header, Writer
from lumia.testing import Bot, ManualClock

LINE = {"message_id": "m1", "time": 1700000000, "group_id": "g", "sender_id": "7", "sender_name": "Ann", "text": "hi"}


def log(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines), "utf-8")
    return path


def test_a_line_needs_six_keys_and_may_have_three_more(tmp_path: Path) -> None:
    full = {**LINE, "message_id": "m2", "reply_to": "bot:m1", "mentions_bot": True, "label": "engage", "mood": "any"}
    plain, rich = read(log(tmp_path, LINE, "", full))
    assert (plain.message_id, plain.time, plain.text, plain.label) == ("m1", 1700000000.0, "hi", "")
    assert (rich.reply_to, rich.mentions, rich.label, rich.line) == ("bot:m1", True, "engage", 3)


def test_where_one_line_notes_a_mention_the_others_have_none(tmp_path: Path) -> None:
    noted = {**LINE, "message_id": "m2", "mentions_bot": True}
    assert [entry.mentions for entry in read(log(tmp_path, LINE, noted))] == [False, True]
    assert [entry.mentions for entry in read(log(tmp_path, LINE))] == [None]


def test_numbers_as_ids_are_taken_as_text(tmp_path: Path) -> None:
    (entry,) = read(log(tmp_path, {**LINE, "group_id": 42, "sender_id": 7}))
    assert (entry.group_id, entry.sender_id) == ("42", "7")


def test_a_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    path = log(tmp_path, json.dumps({**LINE, "text": "one\u2028two\x85three"}, ensure_ascii=False))
    assert read(path)[0].text == "one\u2028two\x85three"


def test_groups_are_apart_and_each_is_in_order_by_itself(tmp_path: Path) -> None:
    other = {**LINE, "message_id": "m2", "group_id": "h", "time": 5}
    found = groups(read(log(tmp_path, LINE, other)))
    assert {name: [entry.message_id for entry in log] for name, log in found.items()} == {"g": ["m1"], "h": ["m2"]}


@pytest.mark.parametrize(
    "lines, said",
    [
        ([], "the file is empty; a line is an object with message_id, time"),
        (["{"], "line 1: no JSON"),
        ([LINE, "[1]"], "line 2: list instead of an object"),
        ([{"message_id": "m1", "time": 1, "sender_name": "A"}], "line 1: group_id, sender_id, text missing"),
        ([{**LINE, "label": "maybe"}], "line 1: label is 'maybe'; write engage or silent"),
        ([{**LINE, "mentions_bot": "yes"}], "line 1: mentions_bot is 'yes'; write true or false"),
        ([{**LINE, "message_id": ""}], "line 1: message_id is ''; an id is a string of 1 to 128"),
        ([{**LINE, "group_id": "a\nb"}], "line 1: group_id is 'a\\nb'; an id is"),
        ([{**LINE, "reply_to": "x" * 200}], "line 1: reply_to is 'xxx"),
        ([{**LINE, "sender_id": ["7"]}], "line 1: sender_id is ['7']; an id is"),
        ([{**LINE, "time": "noon"}], "line 1: time is 'noon'; write seconds since 1970"),
        ([{**LINE, "time": 1700000000000}], "line 1: time is 1700000000000; write seconds"),
        ([LINE, LINE], "line 2: message_id 'm1' is that of line 1, too"),
        ([LINE, {**LINE, "message_id": "m2", "time": 1}], "line 2: time 1.000 is before that of line 1 (1700000000"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_way_out(tmp_path: Path, lines: list[Any], said: str) -> None:
    path = log(tmp_path, *lines)
    with pytest.raises(LogError, match=re.escape(said)) as error:
        read(path)
    assert str(error.value).startswith(str(path))


def test_an_exported_journal_is_a_log_of_the_groups_messages(tmp_path: Path) -> None:
    @lumia.pipe.on("msg")
    def hear(content: lumia.Box[Any]) -> None:
        lumia.utils.stop("heard")

    path = tmp_path / "incident.jsonl.gz"
    clock = ManualClock()
    with Bot(hear, clock=clock) as bot:
        bot.send("hello", sender="ann", group="lab", message_id="m1")
        bot.send("for you alone", sender="bob")
        clock.move(5)
        bot.send("@Lumia?", sender="bob", group="lab", mentions_bot=True, reply_to="m1", message_id="m2")
        writer = Writer(path, Header())
        for entry in lumia.runs.tail("0", 0.0):
            writer.entry(entry)
        writer.close()
    found = [
        (one.message_id, one.sender_name, one.text, one.mentions, one.reply_to, one.group_id) for one in read(path)
    ]
    assert found == [("m1", "ann", "hello", False, None, "lab"), ("m2", "bob", "@Lumia?", True, "m1", "lab")]


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"none\.jsonl: No such file"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"text": "\xe9"}')
    with pytest.raises(LogError, match="it isn't UTF-8 text"):
        read(tmp_path / "latin.jsonl")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"{}" * 500)[:30])
    with pytest.raises(LogError, match=r"cut\.gz"):
        read(tmp_path / "cut.gz")
