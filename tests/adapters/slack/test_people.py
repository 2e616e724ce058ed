"""Names: asked for beside the messages' way, once, and not at all while Slack doesn't like it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.slack.accounts import Account
from adapters.slack.people import FRESH, KEPT, People, look_up
from lumia.errors import RetryAfterError
from lumia.testing import Bot, ManualClock
from tests.adapters.slack.common import ANN, SLACK, config
from tests.peers.slack import Fault, SlackPeer


@pytest.fixture
def slack() -> Iterator[SlackPeer]:
    with SlackPeer() as peer:
        yield peer


@pytest.fixture
def bot(slack: SlackPeer) -> Iterator[Bot]:
    with Bot(SLACK, config=config(slack), clock=ManualClock()) as found:
        yield found


@pytest.fixture
def account(slack: SlackPeer) -> Account:
    return Account("main", bot_token=slack.bot_token, api_url=slack.api_url)


def clock(bot: Bot) -> ManualClock:
    assert isinstance(bot.clock, ManualClock)
    return bot.clock


def met(people: People, account: Account, *ids: str) -> list[str]:
    """Meet these users, let the questions be asked, and return their names."""

    async def run() -> None:
        people.meet(account, ids)
        await asyncio.gather(*[one for one in asyncio.all_tasks() if one is not asyncio.current_task()])

    asyncio.run(run())
    return [people.name(account, id) for id in ids]


def test_a_name_is_asked_for_once_a_day(slack: SlackPeer, bot: Bot, account: Account) -> None:
    assert [look_up(account, ANN) for _ in range(3)] == ["Ann"] * 3
    assert len(slack.calls) == 1
    clock(bot).move(KEPT + 1)
    slack.users[ANN]["display_name"] = "Annie"
    assert look_up(account, ANN) == "Annie"


@pytest.mark.parametrize(
    "user, name",
    [
        ({"name": "ann", "display_name": "", "real_name": "Ann Lee"}, "Ann Lee"),
        ({"name": "ann", "display_name": ""}, "ann"),
        ({}, ""),
    ],
)
def test_the_name_people_chose_comes_first(
    slack: SlackPeer, bot: Bot, account: Account, user: dict[str, Any], name: str
) -> None:
    slack.users[ANN] = user
    assert look_up(account, ANN) == name


def test_somebody_unknown_is_asked_for_once_too(slack: SlackPeer, bot: Bot, account: Account) -> None:
    assert [look_up(account, "U0NOBODY01") for _ in range(2)] == ["", ""]
    assert len(slack.calls) == 1


def test_people_are_known_from_then_on(slack: SlackPeer, bot: Bot, account: Account) -> None:
    people = People()
    assert people.name(account, ANN) == ""
    assert met(people, account, ANN, "U0NOBODY01") == ["Ann", ""]
    met(people, account, ANN)
    assert len(slack.calls) == 2
    clock(bot).move(FRESH + 1)
    assert met(people, account, ANN) == ["Ann"]
    assert len(slack.calls) == 2  # the store knows


def test_nobody_is_asked_for_while_slack_wants_a_pause(slack: SlackPeer, bot: Bot, account: Account) -> None:
    people = People()
    slack.fail("users.info", Fault.limited(20))
    assert met(people, account, ANN) == [""]
    assert met(people, account, ANN) == [""]
    assert len(slack.calls) == 1
    clock(bot).move(21)
    assert met(people, account, ANN) == ["Ann"]


@pytest.mark.parametrize("fault", [Fault.error("missing_scope", needed="users:read"), Fault(500), Fault(cut="before")])
def test_a_failure_is_no_ones_trouble(slack: SlackPeer, bot: Bot, account: Account, fault: Fault) -> None:
    people = People()
    slack.fail("users.info", fault)
    assert met(people, account, ANN) == [""]
    assert met(people, account, ANN) == [""]
    assert len(slack.calls) == 1


def test_a_limit_is_told_as_such(slack: SlackPeer, bot: Bot, account: Account) -> None:
    slack.fail("users.info", Fault.limited(7))
    with pytest.raises(RetryAfterError) as caught:
        look_up(account, ANN)
    assert caught.value.wait == 7
