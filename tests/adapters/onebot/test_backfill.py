"""What an outage kept away: which of it is fetched, in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.onebot import backfill
from adapters.onebot.accounts import Account
from adapters.onebot.frames import Answer

NOW = 1_788_000_000


class History:
    """A chat's history, as get_group_msg_history gives it: the newest, or those up to message_seq."""

    def __init__(self, *events: dict[str, Any], newest_first: bool = False) -> None:
        self.events = list(events)
        self.newest_first = newest_first
        self.asked: list[Mapping[str, Any]] = []

    async def ask(self, action: str, params: Mapping[str, Any]) -> Answer:
        self.asked.append({"action": action, **params})
        before = params.get("message_seq")
        ids = [str(event["message_id"]) for event in self.events]
        end = ids.index(str(before)) + 1 if before else len(ids)
        page = self.events[:end][-params["count"] :]
        return Answer("ok", 0, {"messages": page[::-1] if self.newest_first else page})


def event(id: int, ago: int, **more: Any) -> dict[str, Any]:
    return {"message_id": id, "time": NOW - ago, "user_id": 2, "message": [], **more}


def fetched(history: History, since: int = 600, chat: str = "group-12", **settings: Any) -> list[int]:
    account = Account("main", **settings)
    found = asyncio.run(backfill.missed(history.ask, account, chat, NOW - since, NOW))
    return [item["message_id"] for item in found]


def test_what_is_newer_than_the_last_one_seen_comes_oldest_first() -> None:
    assert fetched(History(event(1, 700), event(2, 500), event(3, 400))) == [2, 3]


def test_a_history_that_begins_with_the_newest_is_turned_round() -> None:
    assert fetched(History(event(1, 500), event(2, 500), event(3, 499), newest_first=True)) == [1, 2, 3]


def test_within_a_second_the_sequence_decides_where_there_is_one() -> None:
    assert fetched(History(event(2, 9, real_seq="8"), event(1, 9, real_seq="7"))) == [1, 2]


def test_what_is_too_old_to_be_answered_is_left_alone() -> None:
    history = History(event(1, 7200), event(2, 1900), event(3, 100))
    assert fetched(history, since=10_000, backfill_minutes=30) == [3]


def test_pages_go_back_until_the_last_one_seen() -> None:
    history = History(*(event(n, 1000 - n) for n in range(100)))
    assert fetched(history, since=950, backfill_max=500) == list(range(50, 100))
    assert len(history.asked) == 3


def test_the_newest_are_fetched_when_there_are_too_many() -> None:
    history = History(*(event(n, 1000 - n) for n in range(100)))
    assert fetched(history, since=2000, backfill_max=30) == list(range(70, 100))


@pytest.mark.parametrize("settings", [{"backfill_minutes": 0.0}, {"backfill_max": 0}])
def test_it_can_be_switched_off(settings: dict[str, Any]) -> None:
    history = History(event(1, 1))
    assert fetched(history, **settings) == []
    assert not history.asked


def test_a_private_chat_has_its_own_action() -> None:
    history = History(event(1, 1))
    assert fetched(history, chat="private-30003") == [1]
    asked = history.asked[0]
    assert (asked["action"], asked["user_id"], asked["count"]) == ("get_friend_msg_history", 30003, 20)


def test_a_peer_without_histories_is_told_apart() -> None:
    async def ask(action: str, params: Mapping[str, Any]) -> Answer:
        return Answer("failed", 1404)

    with pytest.raises(backfill.AbsentError):
        asyncio.run(backfill.missed(ask, Account("main"), "group-1", 0, NOW))


@pytest.mark.parametrize("data", [None, [], {}, {"messages": None}, {"messages": [1, None, "x"]}, "x"])
def test_an_empty_or_odd_answer_is_nothing(data: Any) -> None:
    async def ask(action: str, params: Mapping[str, Any]) -> Answer:
        return Answer("ok", 0, data)

    assert asyncio.run(backfill.missed(ask, Account("main"), "group-1", 0, NOW)) == []


@given(st.lists(st.integers(0, 300), min_size=1, max_size=80), st.integers(1, 60), st.booleans())
def test_nothing_fresh_is_left_out_and_nothing_comes_twice(ages: list[int], most: int, newest_first: bool) -> None:
    ordered = sorted(ages, reverse=True)
    seq = {"real_seq": "1"} if newest_first else {}
    events = (event(n, age, **{key: str(n) for key in seq}) for n, age in enumerate(ordered))
    history = History(*events, newest_first=newest_first)
    got = fetched(history, since=200, backfill_max=most)
    fresh = [n for n, age in enumerate(ordered) if age <= 200]
    assert got == sorted(set(got))
    assert got == fresh[-most:]
