"""Overrides: which table wins, and what a wrong one does."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import lumia
from handlers.heartflow.message import Message, read
from handlers.heartflow.settings import LastGood, LastValid, Overrides, Settings, parse, resolve

DEFAULTS = SimpleNamespace(
    min_reply_interval=0.0,
    rate_limit=30,
    rate_window=60.0,
    handled_types=["text", "mention"],
    blacklist=["1"],
    bots=["9"],
    trigger_threshold=0.65,
    reply_in_groups="auto",
    persona="everyone's",
)
MESSAGE = read({"platform": "qq", "chat": {"kind": "group", "id": "42"}, "sender": {"id": "7"}, "text": "hi"})


def settings(raw: dict[str, Any], message: Message = MESSAGE) -> Settings:
    return resolve(DEFAULTS, parse(raw), message)


def personas(**tables: str) -> dict[str, Any]:
    places = {"platform": "qq", "group": "42", "sender": "7", "qualified_group": "qq:42", "qualified_sender": "qq:7"}
    found: dict[str, Any] = {}
    for place, persona in tables.items():
        found.setdefault(place.removeprefix("qualified_"), {})[places[place]] = {"persona": persona}
    return found


def test_without_overrides_everyone_gets_the_values_for_everyone() -> None:
    found = settings({})
    assert (found.persona, found.reply_in_groups, found.limits.rate_limit) == ("everyone's", "auto", 30)
    assert found.limits.handled_types == {"text", "mention"}


def test_the_narrowest_table_wins() -> None:
    order = ["platform", "group", "qualified_group", "sender", "qualified_sender"]
    for count in range(1, len(order) + 1):
        tables = {place: place for place in order[:count]}
        assert settings(personas(**tables)).persona == order[count - 1]


def test_a_table_inherits_what_it_leaves_out() -> None:
    raw = {"group": {"42": {"rate_limit": 5}}, "platform": {"qq": {"rate_limit": 9, "rate_window": 10}}}
    limits = settings(raw).limits
    assert (limits.rate_limit, limits.rate_window, limits.min_reply_interval) == (5, 10.0, 0.0)


def test_zero_and_empty_are_values_too() -> None:
    raw = {"platform": {"qq": {"rate_limit": 9, "persona": "x", "handled_types": ["image"]}}}
    raw["group"] = {"42": {"rate_limit": 0, "persona": "", "handled_types": []}}
    found = settings(raw)
    assert (found.limits.rate_limit, found.persona, found.limits.handled_types) == (0, "", frozenset())


def test_blacklists_add_up() -> None:
    raw = {"group": {"42": {"blacklist": [2]}}, "platform": {"qq": {"blacklist": ["3"]}, "irc": {"blacklist": ["4"]}}}
    assert settings(raw).limits.blacklist == {"1", "2", "3"}


def test_a_group_table_does_not_reach_a_private_chat_of_the_same_id() -> None:
    private = replace(MESSAGE, chat_kind="private")
    assert settings(personas(group="g"), private).persona == "everyone's"


@pytest.mark.parametrize(
    "raw, named",
    [
        ({"group": {"42": {"rate_limit": "many"}}}, r"overrides\.group\.42\.rate_limit = 'many'"),
        ({"group": {"42": {"cooldown": 3}}}, r"overrides\.group\.42\.cooldown = 3"),
        ({"groups": {}}, r"overrides\.groups = \{\}"),
        ({"sender": {"7": 5}}, r"overrides\.sender\.7 = 5"),
        ({"sender": {"7": {"min_reply_interval": float("nan")}}}, r"min_reply_interval = nan"),
        ({"platform": {"qq": {"reply_in_groups": "never"}}}, r"reply_in_groups = 'never'.*'always'"),
    ],
)
def test_a_wrong_table_is_named_with_file_key_and_value(raw: dict[str, Any], named: str) -> None:
    with pytest.raises(lumia.errors.ConfigValueError, match=r"config/heartflow\.toml: .*" + named):
        parse(raw)


def test_a_mistake_in_a_running_bot_leaves_the_last_good_tables_in_force(caplog: pytest.LogCaptureFixture) -> None:
    tables = LastGood()
    good = tables.of(personas(group="g"))
    with caplog.at_level(logging.WARNING):
        assert tables.of({"group": 1}) is good
        assert tables.of({"group": 1}) is good
    assert len(caplog.records) == 1
    assert tables.of({}) == Overrides()


def test_the_value_in_force_before_any_was_valid_is_the_first(caplog: pytest.LogCaptureFixture) -> None:
    def read(value: int) -> str:
        if value < 0:
            raise lumia.errors.ConfigValueError(f"{value} is wrong")
        return f"*{value}"

    found = LastValid(read, "first")
    assert [found.of(value) for value in (-1, -1, 5, -2, 6)] == ["first", "first", "*5", "*5", "*6"]
    assert [record.message.partition(";")[0] for record in caplog.records] == ["-1 is wrong", "-2 is wrong"]
