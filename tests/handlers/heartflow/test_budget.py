"""Budgets: what is charged, what the chain then does without, and whom it tells."""

from __future__ import annotations

import contextvars
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from lumia.errors import ConfigValueError
from lumia.models import Reply, Usage
from lumia.testing import Bot, ManualClock
from tests.handlers.heartflow.talk import reading

PLUGIN = Path(__file__).parents[3] / "handlers" / "heartflow"
CHATS = ["qq:10001:group:g-1", "qq:10001:group:g-2", "telegram:me:private:7"]
OWNER, TO_OWNER = "qq:99", "msg.send, dest=3.qq.private-99"
LEVELS = ["", "no thinker", "smaller main", "only mentions", "silence"]
CALLS = st.tuples(
    st.sampled_from(CHATS),
    st.sampled_from(["L1", "L2", "L3"]),
    st.integers(0, 400),
    st.none() | st.integers(0, 300).map(lambda cents: cents / 100),
    st.booleans(),
)
"""Chat, layer, tokens, dollars, and whether the first try of the step fails after it."""

told: list[tuple[str, str, dict[str, Any]]] = []


@lumia.pipe.on("spend", retry=lumia.Retry(attempts=3, backoff=0))
def spend(content: lumia.Box[Any]) -> None:
    """Charge what the content says; a step that is to fail does so after the charge, at its first try."""
    scope, layer, tokens, cost, fails = content.into()
    budget().charge(scope, layer, paid(tokens, cost))
    if fails and lumia.effect("tries", lambda: None) is None and not TRIED.get(content.meta["n"]):
        TRIED[content.meta["n"]] = True
        raise RuntimeError("killed after the charge")
    if "inside" in content.meta:
        bot, calls = RUNNING[0], content.meta["inside"]
        contextvars.Context().run(in_between, bot, calls)


def paid(tokens: int, cost: float | None) -> Reply:
    """Return a reply that came to so much."""
    return Reply("", "", "m", Usage(tokens, 0, 1), cost)


TRIED: dict[int, bool] = {}
RUNNING: list[Bot] = []


def in_between(bot: Bot, calls: list[Any]) -> None:
    """Let other chats spend, and commit, before the running step does."""
    with bot.runtime.activated():
        for call in calls:
            lumia.pipe.start("spend", lumia.Box.any(call), key=call[0])
        bot.transport.drain(bot.runtime)


@lumia.pipe.on("allowed")
def allowed(content: lumia.Box[Any]) -> None:
    """Ask what a chat may still do, as a layer of the chain does."""
    budget().allowance(content.into(), lumia.config.get("heartflow"))


@lumia.event.consumer_re("msg.send, dest=*")
def deliver(src: str, content: lumia.Box[Any]) -> None:
    """Take down what was sent."""
    told.append((src, content.into()["text"], dict(content.meta)))


def budget() -> ModuleType:
    return import_module("handlers.heartflow.budget")


@contextmanager
def spending(clock: ManualClock | None = None, **config: Any) -> Iterator[Bot]:
    told.clear()
    TRIED.clear()
    values = {"owners": [OWNER], **config}
    with Bot(PLUGIN, spend, allowed, deliver, config={"heartflow": values}, clock=clock or ManualClock()) as bot:
        RUNNING[:] = [bot]
        yield bot


def call(bot: Bot, scope: str, tokens: int, cost: float | None = 0.0, layer: str = "L3", **meta: Any) -> None:
    box = lumia.Box.any([scope, layer, tokens, cost, False], meta=meta)
    assert bot.start("spend", box, key=scope).outcome == "done"


def left(scope: str) -> Any:
    return budget().allowance(scope, lumia.config.get("heartflow"))


def spent(scope: str = "") -> Any:
    return budget().spent(scope, budget().today(lumia.config.get("heartflow"))).total


# --- charging


def test_a_call_is_charged_to_its_layer_its_chat_and_the_bot() -> None:
    with spending() as bot:
        call(bot, CHATS[0], 100, 0.25, "L1")
        call(bot, CHATS[0], 50, None, "L3")
        call(bot, CHATS[1], 7, 0.0000000001, "L3")
        day = budget().today(lumia.config.get("heartflow"))
        layers = budget().spent(CHATS[0], day).layers
        assert [(layers[name].tokens, layers[name].cost) for name in ("L1", "L3")] == [(100, 0.25), (50, 0.0)]
        assert (layers["L1"].unpriced, layers["L3"].unpriced, layers["L3"].calls) == (0, 1, 1)
        assert (spent().tokens, spent().calls, spent().unpriced) == (157, 3, 1)
        assert spent().nano == 250_000_001  # what costs something never counts as nothing
        assert budget().chats(day) == sorted(CHATS[:2])


def test_the_list_of_chats_is_looked_at_once_for_each_chat_and_day() -> None:
    with spending() as bot, reading(bot, "chats:") as looked:
        for layer in ("L1", "L1", "L2", "L3", "polish"):
            call(bot, CHATS[0], 10, layer=layer)
        assert len(looked) == 1
        assert budget().chats(budget().today(lumia.config.get("heartflow"))) == [CHATS[0]]


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0, None])
def test_a_cost_that_is_none_costs_nothing(cost: float | None) -> None:
    with spending():
        budget().charge(CHATS[0], "L3", Reply(None, "", "m", Usage(-5, 3, 1), cost))
        assert (spent().tokens, spent().nano, spent().unpriced) == (3, 0, 0 if cost == -1.0 else 1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Bot]:
    with spending(daily_tokens=1000, bot_daily_tokens=2000, bot_daily_cost=10.0) as bot:
        yield bot


@contextmanager
def another_day(bot: Bot) -> Iterator[None]:
    """Begin a day on which nothing is spent and nobody was told."""
    assert isinstance(bot.clock, ManualClock)
    bot.clock.move(86400)
    RUNNING[:] = [bot]
    told.clear()
    TRIED.clear()
    with bot.runtime.activated():
        yield


def reached(bot: Bot, who: str) -> tuple[str, int]:
    """Return the level a chat, or the bot, is at now."""
    config = lumia.config.get("heartflow")
    limits = budget().chat_limits(who, config) if who else budget().bot_limits(config)
    return who, budget().judged(budget().spent(who, budget().today(config)), limits, config, whole=not who).level


@settings(max_examples=40, deadline=None)
@given(calls=st.lists(CALLS, max_size=25))
def test_any_order_and_any_retries_give_the_same_sums_and_one_notice_for_each_level(
    shared: Bot, calls: list[Any]
) -> None:
    with another_day(shared):
        seen: set[tuple[str, int]] = set()
        for n, (scope, *rest) in enumerate(calls):
            shared.start("spend", lumia.Box.any([scope, *rest], meta={"n": n}), key=scope)
            seen |= {reached(shared, scope), reached(shared, "")}
        for scope in [*CHATS, ""]:
            mine = [made for made in calls if scope in ("", made[0])]
            assert spent(scope).tokens == sum(made[2] for made in mine)
            assert spent(scope).nano == sum(round((made[3] or 0) * 10**9) for made in mine)
            assert (spent(scope).calls, spent(scope).unpriced) == (len(mine), sum(made[3] is None for made in mine))
        assert not shared.dead
        assert len(told) == len([level for _, level in seen if level]) == len({text for _, text, _ in told})
        assert {to for to, _, _ in told} <= {TO_OWNER}


@settings(max_examples=30, deadline=None)
@given(outer=CALLS, inner=st.lists(CALLS, max_size=5))
def test_what_others_commit_in_between_is_neither_lost_nor_counted_twice(shared: Bot, outer: Any, inner: Any) -> None:
    with another_day(shared):
        others = [[scope, layer, tokens, cost, False] for scope, layer, tokens, cost, _ in inner if scope != outer[0]]
        call(shared, outer[0], 5 * outer[2], outer[3], outer[1], inside=others)
        assert spent().tokens == 5 * outer[2] + sum(made[2] for made in others)
        assert spent().calls == 1 + len(others)
        parts = [(text.partition(" used ")[0], text.partition("Until ")[2].partition(".")[0]) for _, text, _ in told]
        notices = Counter(parts)
        assert max(notices.values(), default=0) <= 1


def test_two_chats_that_bring_the_bot_to_a_level_at_one_moment_tell_of_it_once() -> None:
    with spending(bot_daily_tokens=100) as bot:
        call(bot, CHATS[0], 72, inside=[[CHATS[1], "L1", 1, 0.0, False], [CHATS[1], "L1", 71, 0.0, False]])
        assert [text.partition(" Until ")[0] for _, text, _ in told] == [
            "Budget: the bot has used 72 % of 100 tokens today."
        ]
        assert spent().tokens == 144


def test_a_step_that_fails_for_good_charges_nothing() -> None:
    @lumia.pipe.on("failing", retry=1)
    def failing(content: lumia.Box[Any]) -> None:
        budget().charge(CHATS[0], "L3", paid(1000, 1.0))
        raise RuntimeError("after the charge")

    told.clear()
    with Bot(PLUGIN, failing, deliver, config={"heartflow": {"owners": [OWNER], "daily_tokens": 10}}) as bot:
        bot.start("failing", 1)
        assert len(bot.dead) == 1
        assert (spent(CHATS[0]).tokens, spent().tokens, told) == (0, 0, [])


# --- days


def test_a_day_begins_where_the_bot_is() -> None:
    clock = ManualClock(datetime(2026, 11, 22, 15, 59, tzinfo=UTC).timestamp())
    with spending(clock, timezone="Asia/Shanghai", daily_tokens=100) as bot:
        call(bot, CHATS[0], 100)
        assert (left(CHATS[0]).level, len(told)) == (4, 1)
        clock.move(120)  # midnight in Shanghai
        assert (left(CHATS[0]).level, spent(CHATS[0]).tokens) == (0, 0)
        assert budget().today(lumia.config.get("heartflow"), 1) == "2026-11-22"
        call(bot, CHATS[0], 100)
        assert len(told) == 2
        assert budget().spent("", "2026-11-22").total.tokens == 100


def test_the_numbers_of_a_chat_are_forgotten_after_a_while_those_of_the_bot_later() -> None:
    clock = ManualClock()
    with spending(clock) as bot:
        call(bot, CHATS[0], 5)
        day = budget().today(lumia.config.get("heartflow"))
        clock.move(16 * 86400)
        assert (budget().spent(CHATS[0], day).total.tokens, budget().chats(day)) == (0, [])
        assert budget().spent("", day).total.tokens == 5
        clock.move(90 * 86400)
        assert budget().spent("", day).total.tokens == 0


# --- levels


@pytest.mark.parametrize(
    "tokens, level, thinker, role, only, silent",
    [
        (0, 0, True, "main", False, False),
        (699, 0, True, "main", False, False),
        (700, 1, False, "main", False, False),
        (850, 2, False, "small", False, False),
        (950, 3, False, "small", True, False),
        (999, 3, False, "small", True, False),
        (1000, 4, False, "small", True, True),
        (5000, 4, False, "small", True, True),
    ],
)
def test_layer_by_layer_the_chain_does_without(
    tokens: int, level: int, thinker: bool, role: str, only: bool, silent: bool
) -> None:
    with spending(daily_tokens=1000) as bot:
        call(bot, CHATS[0], tokens)
        now = left(CHATS[0])
        assert (now.level, now.thinker, now.main_role) == (level, thinker, role)
        assert (now.mentions_only, now.silent) == (only, silent)
        assert left(CHATS[1]).level == 0
        assert now.reason == (
            f"budget: {tokens // 10} % of 1,000 tokens today: {LEVELS[level]}" if level else ""
        )  # fmt: skip


@pytest.mark.parametrize(
    "config, tokens, cost, reason",
    [
        ({"daily_cost": 2.0}, 0, 1.4, "budget: 70 % of $2.00 today: no thinker"),
        ({"bot_daily_tokens": 100}, 90, 0.0, "budget: 90 % of the bot's 100 tokens today: smaller main"),
        ({"bot_daily_cost": 0.5}, 0, 0.5, "budget: 100 % of the bot's $0.5000 today: silence"),
        ({"daily_tokens": 100, "bot_daily_tokens": 1000}, 96, 0.0, "budget: 96 % of 100 tokens today: only mentions"),
        ({"daily_tokens": 100, "daily_cost": 1.0}, 10, 0.7, "budget: 70 % of $1.00 today: no thinker"),
        ({"daily_tokens": 100, "budget_levels": [0.1, 0.2, 0.3, 0.4]}, 15, 0.0,
         "budget: 15 % of 100 tokens today: no thinker"),
    ],
)  # fmt: skip
def test_the_reason_names_the_tighter_limit(config: dict[str, Any], tokens: int, cost: float, reason: str) -> None:
    with spending(**config) as bot:
        call(bot, CHATS[0], tokens, cost)
        assert left(CHATS[0]).reason == reason


def test_calls_of_unknown_price_are_named_and_count_as_tokens_only() -> None:
    with spending(daily_cost=1.0, daily_tokens=1000) as bot:
        call(bot, CHATS[0], 100, None)
        call(bot, CHATS[0], 0, 0.75)
        assert left(CHATS[0]).reason == (
            "budget: 75 % of $1.00 today (1 call of unknown price not counted): no thinker"
        )
        call(bot, CHATS[0], 900, None)
        assert left(CHATS[0]).reason == "budget: 100 % of 1,000 tokens today: silence"


def test_a_group_or_a_platform_can_have_limits_of_its_own() -> None:
    overrides = {
        "group": {"qq:g-1": {"daily_tokens": 10}, "7": {"daily_tokens": 5}},
        "platform": {"telegram": {"daily_tokens": 50, "daily_cost": 0.5}},
    }
    with spending(daily_tokens=1000, daily_cost=1.0, overrides=overrides):
        config = lumia.config.get("heartflow")
        found = [budget().chat_limits(scope, config) for scope in [*CHATS, "nonsense"]]
        assert [(one.tokens, one.cost) for one in found] == [(10, 1.0), (1000, 1.0), (50, 0.5), (1000, 1.0)]


def test_the_trace_of_a_step_says_which_level_is_in_force() -> None:
    with spending(daily_tokens=100) as bot:
        call(bot, CHATS[0], 85)
        seen = []
        for scope in CHATS[:2]:
            run = bot.start("allowed", scope).run_id
            (entry,) = (one for one in lumia.runs.tail("0") if one.kind == "step" and one.run_id == run)
            seen.append(entry.detail.get("budget"))
        assert seen == ["budget: 85 % of 100 tokens today: smaller main", None]


def test_without_a_limit_nothing_is_read_and_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with spending() as bot:
        call(bot, CHATS[0], 10**9, 10**4)
        monkeypatch.setattr(bot.transport, "read", lambda *_: pytest.fail("the store was read"))
        assert left(CHATS[0]).level == 0
        assert told == []


# --- telling


def test_the_owner_is_told_once_for_each_level_and_the_group_never() -> None:
    with spending(daily_tokens=1000) as bot:
        for tokens in (650, 60, 10, 140, 100, 50, 500):
            call(bot, CHATS[0], tokens)
        first, *_ = told
        assert first[1] == (
            "Budget: the chat group g-1 on qq has used 71 % of 1,000 tokens today. Until midnight (UTC) the bot there "
            "answers without the thinker. Tokens of 2023-11-14 by layer: L3 710."
        )
        assert [text.partition("bot there ")[2].partition(".")[0] for _, text, _ in told] == [
            "answers without the thinker", "answers with the smaller model", "answers only who addresses it",
            "keeps silent",
        ]  # fmt: skip
        assert {(to, meta["account"]) for to, _, meta in told} == {(TO_OWNER, "10001")}


def test_the_owner_is_not_told_again_hours_later() -> None:
    clock = ManualClock(datetime(2026, 11, 22, 1, tzinfo=UTC).timestamp())
    with spending(clock, daily_tokens=1000) as bot:
        for _ in range(3):
            call(bot, CHATS[0], 710)
            lumia.config.get("heartflow").daily_tokens += 1000
            clock.move(7000)  # longer than a start is known as a duplicate
        assert len(told) == 1


def test_an_owner_on_another_platform_or_in_a_room_of_its_own_is_told_too() -> None:
    room = "msg.send, dest=5.discord.group-ops"
    with spending(daily_tokens=10, owners=["telegram:5", room]) as bot:
        call(bot, CHATS[0], 10)
        assert [(to, meta) for to, _, meta in told] == [
            ("msg.send, dest=4.telegram.private-5", {"command": "budget"}), (room, {"command": "budget"}),
        ]  # fmt: skip


def test_a_group_named_as_owner_is_not_told_of_itself() -> None:
    own = str(lumia.payloads.destination(3, "qq", "group", "g-1"))
    with spending(daily_tokens=10, owners=[own]) as bot:
        call(bot, CHATS[0], 10)
        assert told == []
        call(bot, CHATS[1], 10)
        assert [to for to, _, _ in told] == [own]


@pytest.mark.parametrize(
    "config, why",
    [
        ({"owners": ["nobody"]}, "'nobody' names no owner"),
        ({"owners": ["irc:5"]}, "'irc:5' names no owner"),
        ({"owners": ["msg.send, dest=3.qq"]}, "is no destination"),
        ({"timezone": "Mars/Olympus"}, "timezone = 'Mars/Olympus'"),
        ({"timezone": "../etc"}, "timezone = '../etc'"),
        ({"budget_levels": [0.5]}, "four shares"),
        ({"budget_levels": [0.9, 0.8, 0.95, 1.0]}, "none smaller than the one before"),
    ],
)
def test_settings_that_could_not_be_obeyed_keep_the_plugin_from_loading(config: dict[str, Any], why: str) -> None:
    with pytest.raises(lumia.errors.LumiaError, match=why), spending(**config):
        pass


@pytest.mark.parametrize("wrong", [[1.0], [], [0.9, 0.8, 0.95, 1.0]])
def test_levels_edited_for_the_worse_in_a_running_bot_change_nothing(
    wrong: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    with spending(daily_tokens=1000, budget_levels=[0.1, 0.2, 0.3, 0.4]) as bot:
        config = lumia.config.get("heartflow")
        config.budget_levels = wrong
        call(bot, CHATS[0], 250)
        assert left(CHATS[0]).level == 2
        assert caplog.text.count("budget_levels") == 1
        config.budget_levels = [0.2, 0.3, 0.4, 0.5]
        assert left(CHATS[0]).level == 1


def test_a_time_zone_edited_for_the_worse_in_a_running_bot_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(datetime(2026, 11, 22, 17, tzinfo=UTC).timestamp())
    with spending(clock, timezone="Asia/Shanghai", daily_tokens=10) as bot:
        lumia.config.get("heartflow").timezone = "Mars/Olympus"
        assert budget().today(lumia.config.get("heartflow")) == "2026-11-23"
        call(bot, CHATS[0], 10)
        assert "Until midnight (Asia/Shanghai)" in told[0][1]
        assert caplog.text.count("timezone") == 1


def test_a_notice_is_no_part_of_the_talk_with_an_owner() -> None:
    with spending(daily_tokens=10) as bot:
        call(bot, CHATS[0], 10)
        assert len(told) == 1
        store, scope = lumia.store.of("heartflow"), "qq:10001:private:99"
        assert store.items("lines", scope=scope) == []
        assert store.get("last_send", scope=scope) is store.get("window_end", scope=scope) is None


def test_an_owner_who_becomes_unreadable_in_a_running_bot_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with spending(daily_tokens=10) as bot:
        lumia.config.get("heartflow").owners = ["nobody", OWNER]
        lumia.config.get("heartflow").timezone = "Mars/Olympus"
        call(bot, CHATS[0], 10)
        assert [to for to, _, _ in told] == [TO_OWNER]
        assert "'nobody' names no owner" in caplog.text
        with pytest.raises(ConfigValueError):
            budget().check(lumia.config.get("heartflow"))


# --- the command


def commands() -> ModuleType:
    return import_module("handlers.heartflow.budget_commands")


def test_the_command_shows_each_day_by_layer_and_chat(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with spending(clock, daily_tokens=1000, bot_daily_cost=10.0) as bot:
        call(bot, CHATS[0], 500, 2.0, "L1")
        clock.move(86400)
        call(bot, CHATS[0], 750, 5.0, "L3")
        call(bot, CHATS[0], 100, None, "L1")
        call(bot, CHATS[2], 150, 0.001, "L1")
        assert commands().show(days=2) == 0
        assert capsys.readouterr().out.splitlines() == [
            (
                "2023-11-15  all chats           1,000 tokens  ██████████░░░░░░░░░░  $5.00 + 1 call of unknown price"
                "  50 % of its limit"
            ),
            "  L3                              750 tokens  ███████████████░░░░░  $5.00",
            "  L1                              250 tokens  █████░░░░░░░░░░░░░░░  $0.0010 + 1 call of unknown price",
            (
                "  group g-1 on qq                 850 tokens  █████████████████░░░  $5.00 + 1 call of unknown price"
                "  85 % of its limit: smaller main"
            ),
            "  private 7 on telegram           150 tokens  ███░░░░░░░░░░░░░░░░░  $0.0010  15 % of its limit",
            "",
            "2023-11-14  all chats           500 tokens  ████░░░░░░░░░░░░░░░░  $2.00  20 % of its limit",
            "  L1                            500 tokens  ████████████████████  $2.00",
            "  group g-1 on qq               500 tokens  ████████████████████  $2.00  50 % of its limit",
        ]


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    with spending(daily_tokens=1000) as bot:
        call(bot, CHATS[0], 700, None)
        assert commands().show(json_=True) == 0
        found = json.loads(capsys.readouterr().out)
        (day,) = found["days"]
        assert (found["timezone"], day["day"], day["share"]) == ("UTC", "2023-11-14", None)
        assert day["chats"] == [{
            "chat": CHATS[0], "tokens": 700, "cost": 0.0, "calls": 1, "unpriced": 1,
            "layers": {"L3": {"tokens": 700, "cost": 0.0, "calls": 1, "unpriced": 1}},
            "limits": {"tokens": 1000, "cost": 0.0}, "share": 0.7, "level": 1,
        }]  # fmt: skip


def test_the_command_shows_the_chats_that_spent_most_and_says_how_many_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with spending():
        for n in range(25):
            budget().charge(f"qq:1:group:{n}", "L1", paid(n, 0.0))
        commands().show()
        told = capsys.readouterr().out.splitlines()
        assert told[2].startswith("  group 24 on qq")
        assert told[-1] == "  and 5 more chats; --json holds all of them"


@pytest.mark.parametrize("days", [0, 101])
def test_the_command_refuses_days_nobody_keeps(days: int, capsys: pytest.CaptureFixture[str]) -> None:
    with spending():
        assert commands().show(days=days) == 2
        assert "--days is a number from 1 to 100" in capsys.readouterr().err
