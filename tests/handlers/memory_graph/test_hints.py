"""Hints: found by likeness and by hash, not twice in a row, and committed with the turn they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

import lumia
from handlers.memory_graph import commitments, hints
from handlers.memory_graph.commitments import Commitment
from handlers.memory_graph.types import Calibration, Embedded
from lumia.testing import Bot, ManualClock

WEDNESDAY = datetime(2026, 11, 25, 10, tzinfo=UTC).timestamp()
FRIDAY = date(2026, 11, 27)
CHAT, OTHER = "console:me:group:1", "console:me:group:2"


def axis(*numbers: float) -> Embedded:
    vector = np.zeros(8, np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.linalg.norm(vector)


def add(text: str, vector: Embedded, *, chat: str = CHAT, hours: float = 48, at: float = WEDNESDAY, **more: Any) -> str:
    return hints.add(chat, text, ttl_hours=hours, vector=vector, model="m", now=at, zone=UTC, **more)


def select(
    text: str, vector: Embedded | None, *, chat: str = CHAT, at: float = WEDNESDAY, sender: str = "ann"
) -> tuple[hints.Hint, ...]:
    scale = Calibration(0.0, 0.1)
    return hints.select(chat, text, vector, sender=sender, model="m", calibration=scale, now=at, zone=UTC)


def chosen(text: str, vector: Embedded | None, **more: Any) -> list[tuple[str, str]]:
    return [(hint.text, hint.found) for hint in select(text, vector, **more)]


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot(turn, clock=ManualClock(WEDNESDAY)) as bot:
        yield bot


@lumia.pipe.on(id="turn")
def turn(content: lumia.Box[Any]) -> None:
    """Take a hint into the prompt and make a new one; fail when told to."""
    found = select("x", axis(1))
    hints.injected(CHAT, found)
    add("made in the turn", axis(0, 1))
    if content.into() == "fail":
        raise RuntimeError("after the hint was taken")


# --- commitments


@pytest.mark.parametrize(
    "text,days",
    [
        ("see you on Friday", [FRIDAY]),
        ("this Friday evening", [FRIDAY]),
        ("next Friday", [FRIDAY, date(2026, 12, 4)]),
        ("today or tomorrow", [date(2026, 11, 25), date(2026, 11, 26)]),
        ("2026-11-27 at noon", [FRIDAY]),
        ("Nov 27", [FRIDAY]),
        ("3 Jan", [date(2027, 1, 3)]),
        ("in 2 days", [FRIDAY]),
        ("周五下午三点", [FRIDAY]),
        ("下周五", [FRIDAY, date(2026, 12, 4)]),
        ("11月27日", [FRIDAY]),
        ("两天以后再说,后天", [FRIDAY]),
        ("金曜日に会いましょう", [FRIDAY]),
        ("am Freitag", [FRIDAY]),
        ("el viernes", [FRIDAY]),
        ("vendredi prochain", [FRIDAY, date(2026, 12, 4)]),
        ("31 February", []),
        ("no day at all", []),
    ],
)
def test_days_are_read_in_several_languages(text: str, days: list[date]) -> None:
    assert commitments.days_in(text, WEDNESDAY, UTC) == days


MEET = Commitment(("ann", "bob"), "meet", "Friday")
DENTIST = Commitment(("ann",), "the dentist appointment", "2026-11-27")


@pytest.mark.parametrize(
    "one,other",
    [
        (MEET, Commitment(("bob", "ann"), "meeting", "this Friday evening")),
        (DENTIST, Commitment(("ann",), "Dentist appointments!", "in 2 days")),
        (Commitment((), "开会", "周五"), Commitment((), "我们开会的", "星期五")),
    ],
)
def test_variants_of_a_commitment_have_one_hash(one: Commitment, other: Commitment) -> None:
    assert one.normalised(WEDNESDAY, UTC).digest == other.normalised(WEDNESDAY, UTC).digest


@pytest.mark.parametrize(
    "other",
    [
        Commitment(("ann",), "meet", "Friday"),
        Commitment(("ann", "bob"), "swim", "Friday"),
        Commitment(("ann", "bob"), "meet", "Monday"),
    ],
)
def test_another_day_person_or_deed_is_another_commitment(other: Commitment) -> None:
    assert MEET.normalised(WEDNESDAY, UTC).digest != other.normalised(WEDNESDAY, UTC).digest


# --- finding


def test_the_nearest_hints_come_first_and_what_is_far_does_not_come(bot: Bot) -> None:
    add("close", axis(1, 0.2))
    add("closer", axis(1, 0.1))
    add("elsewhere", axis(0, 0, 1))
    assert chosen("anything", axis(1)) == [("closer", "similar"), ("close", "similar")]


def test_at_most_five_come(bot: Bot) -> None:
    for number in range(9):
        add(f"hint {number}", axis(1, number / 10))
    assert [text for text, _ in chosen("x", axis(1))] == [f"hint {number}" for number in range(5)]


def test_a_named_commitment_is_found_where_likeness_misses_it(bot: Bot) -> None:
    add("Ann and Bob meet on Friday", axis(0, 0, 1), commitment=Commitment(("ann", "bob"), "meet", "Friday"))
    add("Bob swims on Friday", axis(0, 0, 0, 1), commitment=Commitment(("bob",), "swim", "Friday"))
    assert chosen("are we still meeting this Friday evening?", axis(1)) == [("Ann and Bob meet on Friday", "exact")]
    assert chosen("are we still meeting on Friday?", None) == [("Ann and Bob meet on Friday", "exact")]
    assert chosen("are we still meeting on Monday?", axis(1)) == []
    assert chosen("are we meeting on Friday?", axis(1), sender="eve") == []


def test_hints_of_one_chat_are_not_seen_in_another(bot: Bot) -> None:
    add("secret", axis(1), commitment=Commitment((), "meet", "Friday"))
    assert chosen("meet on Friday", axis(1), chat=OTHER) == []


def test_a_hint_ends_with_its_time_and_a_repeated_one_lives_on(bot: Bot) -> None:
    add("short", axis(1), hours=1)
    add("long", axis(1, 0.1), hours=1)
    assert add("Long!", axis(1, 0.1), hours=3) == add("long", axis(1, 0.1), hours=0)
    assert chosen("x", axis(1), at=WEDNESDAY + 2 * 3600) == [("long", "similar")]


def test_hints_of_another_model_are_only_found_by_hash(bot: Bot) -> None:
    hints.add(CHAT, "old", ttl_hours=9, vector=axis(1), model="other", now=WEDNESDAY)
    assert chosen("x", axis(1)) == []


def test_what_was_injected_last_turn_waits_one_turn_but_a_named_commitment_does_not(bot: Bot) -> None:
    add("plain", axis(1))
    add("we meet on Friday", axis(0, 1), commitment=Commitment((), "meet", "Friday"))
    first = select("meet on Friday", axis(1))
    assert [hint.text for hint in first] == ["we meet on Friday", "plain"]
    hints.injected(CHAT, first)
    assert chosen("meet on Friday", axis(1)) == [("we meet on Friday", "exact")]
    hints.injected(CHAT, ())
    assert chosen("meet on Friday", axis(1)) == [("we meet on Friday", "exact"), ("plain", "similar")]


def test_clearing_never_takes_an_unexpired_commitment(bot: Bot) -> None:
    add("we meet on Friday", axis(1), commitment=Commitment((), "meet", "Friday"))
    for _ in range(200):
        add(f"chatter {_}", axis(0, 1))
    hints.injected(CHAT, ())
    assert chosen("do we meet on Friday?", None) == [("we meet on Friday", "exact")]


# --- commit


def test_a_turn_that_fails_has_neither_injected_nor_made_a_hint(bot: Bot) -> None:
    add("plain", axis(1))
    bot.start("turn", "fail")
    assert chosen("x", axis(1, 1)) == [("plain", "similar")]
    bot.start("turn", "go")
    assert chosen("x", axis(1, 1)) == [("made in the turn", "similar")]


def test_forgetting_a_person_takes_what_is_about_them_or_names_them_and_nothing_else(bot: Bot) -> None:
    add("Ann likes trams", axis(1))
    add("the trams are late", axis(1), people=["7"])
    add("Joanna likes ships", axis(1))
    add("7 wants a call", axis(1))
    add("Bob's party", axis(1), commitment=Commitment(("7", "8"), "party", "friday"))
    add("Cid's picnic", axis(1), commitment=Commitment(("9",), "picnic", "friday"))
    add("Ann is here, too", axis(1), chat=OTHER)
    assert hints.forget_person(CHAT, "7", ["Ann", "A"]) == 3
    assert hints.forget_person(CHAT, "7", ["Ann", "A"]) == 0
    left = {item["text"] for name in hints.KEPT for item in lumia.store.of(hints.PLUGIN).items(name, scope=CHAT)}
    assert chosen("who is here?", axis(1), chat=OTHER) == [("Ann is here, too", "similar")]
    assert left == {"Joanna likes ships", "7 wants a call", "Cid's picnic"}


def test_forgetting_a_chat_takes_everything(bot: Bot) -> None:
    add("plain", axis(1))
    add("we meet", axis(1), commitment=Commitment((), "meet", "Friday"))
    hints.forget(CHAT)
    assert chosen("meet Friday", axis(1)) == []


def test_a_vector_keeps_its_direction_in_half_the_bytes() -> None:
    vector = axis(0.3, 0.7, 0.1)
    assert len(hints.packed(vector)) == 24
    assert float(hints.unpacked(hints.packed(vector)) @ vector) > 0.999
