"""The labelled group logs under tests/fixtures/lab hold what their README says."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).parents[2] / "fixtures" / "lab"
FILES = sorted(LAB.glob("*.jsonl"))
REQUIRED = {"message_id", "time", "group_id", "sender_id", "sender_name", "text", "label"}
OPTIONAL = {"reply_to", "mentions_bot"}
ASKING = {"mention", "named", "follow-up", "room-help"}
LANGUAGES = {
    "camping": "zh", "family": "zh", "kaoyan": "zh", "raid": "zh",
    "larp": "zh", "photo": "zh", "reno": "zh", "residents": "zh",
    "homelab": "en", "matchday": "en", "sourdough": "en",
    "allotment": "en", "cycling": "en", "tabletop": "en",
    "idol": "zh", "parents": "zh", "sprint": "zh",
    "guild": "en", "oncall": "en", "street": "en",
    "kin": "mixed", "studio": "mixed",
    "munich": "mixed", "pypkg": "mixed", "biolab": "mixed", "exchange": "mixed",
}  # fmt: skip

PARTS = ("dev", "test", "more")

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def part(name: str) -> list[Row]:
    return [row for path in FILES if path.stem.startswith(f"{name}-") for row in read(path)]


def kinds() -> dict[str, str]:
    """The kind of each message by its id; plain talk is not listed."""
    listed: dict[str, list[str]] = json.loads((LAB / "kinds.json").read_text("utf-8"))
    named = {message_id: kind for kind, ids in listed.items() for message_id in ids}
    assert len(named) == sum(map(len, listed.values())), "a message has two kinds"
    return named


def table(first: str) -> list[list[str]]:
    """The rows of the README's tables whose first cell matches."""
    lines = (LAB / "README.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in rows if re.fullmatch(first, row[0])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_one_group_in_the_labs_format(path: Path) -> None:
    rows = read(path)
    assert 50 <= len(rows) <= 100
    assert len({row["group_id"] for row in rows}) == 1
    for row in rows:
        assert set(row) >= REQUIRED
        assert set(row) <= REQUIRED | OPTIONAL
        assert type(row["time"]) is int
        assert row["label"] in ("engage", "silent")
        assert row.get("mentions_bot", True) is True
        for key in ("message_id", "sender_id", "sender_name", "text", *(["reply_to"] if "reply_to" in row else [])):
            assert isinstance(row[key], str)
            assert row[key].strip()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_times_ascend_and_replies_look_back(path: Path) -> None:
    rows = read(path)
    assert all(a["time"] <= b["time"] for a, b in pairwise(rows))
    seen: dict[str, str] = {}
    for row in rows:
        target = row.get("reply_to")
        if target is not None and target.startswith("bot:"):
            assert seen[target.removeprefix("bot:")] == "engage", "the bot never answered that message"
        elif target is not None:
            assert target in seen
        seen[row["message_id"]] = row["label"]


def test_every_message_has_an_id_of_its_own() -> None:
    ids = Counter(row["message_id"] for name in PARTS for row in part(name))
    assert [message_id for message_id, count in ids.items() if count > 1] == []


def test_there_are_enough_messages_and_engage_is_rare() -> None:
    rows = part("dev") + part("test")
    assert len(rows) >= 600
    assert 0.08 <= sum(row["label"] == "engage" for row in rows) / len(rows) <= 0.11


def test_the_halves_are_balanced_by_size_language_label_and_kind() -> None:
    dev, test = part("dev"), part("test")
    assert abs(len(dev) - len(test)) <= 0.1 * len(dev)
    engaged = [sum(row["label"] == "engage" for row in rows) for rows in (dev, test)]
    assert abs(engaged[0] - engaged[1]) <= 0.1 * engaged[0]
    files = [
        Counter(LANGUAGES[path.stem.split("-")[1]] for path in FILES if path.stem.startswith(n))
        for n in ("dev", "test")
    ]
    assert files[0] == files[1]
    of = kinds()
    asked = [Counter(of.get(row["message_id"], "talk") for row in rows) for rows in (dev, test)]
    assert set(asked[0]) == set(asked[1])
    for kind in ASKING:
        assert abs(asked[0][kind] - asked[1][kind]) <= 0.1 * asked[0][kind]


@pytest.mark.parametrize("path", [path for path in FILES if path.stem.startswith("more-")], ids=lambda path: path.stem)
def test_each_further_file_has_its_share_of_engage(path: Path) -> None:
    rows = read(path)
    assert 75 <= len(rows) <= 90
    assert 0.08 <= sum(row["label"] == "engage" for row in rows) / len(rows) <= 0.11


def test_the_further_part_has_every_language_and_kind() -> None:
    files = Counter(LANGUAGES[path.stem.removeprefix("more-")] for path in FILES if path.stem.startswith("more-"))
    assert files == {"zh": 3, "en": 3, "mixed": 2}
    of = kinds()
    assert {of.get(row["message_id"], "talk") for row in part("more")} == {*of.values(), "talk"}


@pytest.mark.parametrize("one, other", list(combinations(PARTS, 2)))
def test_nothing_of_one_part_is_in_another(one: str, other: str) -> None:
    a, b = part(one), part(other)
    for key in ("group_id", "sender_id"):
        assert not {row[key] for row in a} & {row[key] for row in b}
    assert not {row["text"] for row in a if len(row["text"]) > 8} & {row["text"] for row in b}


def test_kinds_agree_with_labels_and_mentions() -> None:
    of = kinds()
    rows = [row for name in PARTS for row in part(name)]
    assert set(of) <= {row["message_id"] for row in rows}
    for row in rows:
        kind = of.get(row["message_id"], "talk")
        assert (row["label"] == "engage") == (kind in ASKING), row
        assert row.get("mentions_bot", False) == (kind == "mention"), row
        if kind == "mention":
            assert re.search(r"@(lumia|露米娅)", row["text"], re.IGNORECASE)


def test_every_part_has_a_shared_and_a_changed_nickname() -> None:
    for name in PARTS:
        pairs = {(row["group_id"], row["sender_id"], row["sender_name"]) for row in part(name)}
        assert max(Counter((group, nick) for group, _, nick in pairs).values()) > 1
        assert max(Counter((group, sender) for group, sender, _ in pairs).values()) > 1


def test_the_readmes_counts_are_those_of_the_files() -> None:
    told = {(row[0], row[1]): tuple(map(int, row[2:5])) for row in table("|".join(PARTS))}
    counted: dict[tuple[str, str], tuple[int, int, int]] = {}
    for path in FILES:
        name, topic = path.stem.split("-")
        rows = read(path)
        files, messages, engaged = counted.get((name, LANGUAGES[topic]), (0, 0, 0))
        engaged += sum(row["label"] == "engage" for row in rows)
        counted[name, LANGUAGES[topic]] = files + 1, messages + len(rows), engaged
    assert told == counted
    of = kinds()
    by_part = [Counter(of.get(row["message_id"], "talk") for row in part(name)) for name in PARTS]
    named = set().union(*by_part)
    assert {row[0]: list(map(int, row[1:4])) for row in table("|".join(named))} == {
        kind: [counts[kind] for counts in by_part] for kind in named
    }
