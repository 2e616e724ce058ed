"""What a step saw is recorded, and a player gives it back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.errors import EffectError
from lumia.journal import JournalEntry
from lumia.marks import marks_on
from lumia.recording import MAX_BYTES, MAX_TIMES, PLAIN_BYTES, Missed, Player, Read, Reads, Recording, unpacked
from lumia.testing import Bot, ManualClock

AT_ONCE = lumia.Retry(attempts=3, backoff=0)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3)
)


def entries(bot: Bot) -> list[JournalEntry]:
    return bot.transport.tail("0", 0, 10_000)


def recording(bot: Bot, attempt: int = 1) -> Recording:
    steps = [entry for entry in entries(bot) if entry.kind == "step" and entry.attempt == attempt]
    return Recording.of(steps[0], entries(bot))


def marked(handler: Callable[..., Any]) -> Callable[..., Any]:
    return handler if marks_on(handler) else lumia.pipe.on("it", retry=AT_ONCE)(handler)


def ran(handler: Callable[..., Any], **options: Any) -> tuple[Bot, Any]:
    with Bot(marked(handler), **options) as bot:
        return bot, bot.start("it", 1)


def replayed(handler: Callable[..., Any], found: Recording) -> tuple[Player, Any]:
    """Run the handler again, answered by a player, on another bot."""
    player = Player(found)
    with Bot(marked(handler), clock=ManualClock(5.0)) as bot:
        bot.runtime.player = lambda claim: player
        return player, bot.start("it", 1)


def test_a_step_that_reads_nothing_has_no_reads() -> None:
    def quiet(content: lumia.Box[Any]) -> None:
        content.into()

    bot, _ = ran(quiet)
    (step,) = [entry for entry in entries(bot) if entry.kind == "step"]
    assert "reads" not in step.detail and "hidden" not in step.detail


def test_each_read_stands_there_once_in_the_order_of_first_use() -> None:
    def reads(content: lumia.Box[Any]) -> None:
        lumia.store.set("own", 1)
        lumia.store.get("own")
        lumia.store.get("other")
        lumia.system.now()
        lumia.system.now()
        lumia.store.get("other")

    found = recording(ran(reads, clock=ManualClock(1000.0))[0])
    assert found.reads == (Read("store", "test//other", ["none", None]), Read("now", "", 1000.0))


def test_a_replay_sees_the_same_world_without_having_it() -> None:
    seen: list[Any] = []

    def asks(content: lumia.Box[Any]) -> None:
        count = lumia.store.incr("count")
        chance = [lumia.system.random(), lumia.system.new_id()]
        answer = lumia.effect("ask", lambda: {"called": len(seen)}, kind="http")
        remembered = lumia.recorded("memory", "recall", lambda: [len(seen)])
        seen.append([count, lumia.system.now(), chance, answer, remembered])

    bot, result = ran(asks, clock=ManualClock(1000.0))
    player, again = replayed(asks, recording(bot))
    assert seen[0] == seen[1] and result.outcome == again.outcome
    assert player.misses == [] and player.leftovers() == [] and player.inexact == []


def test_settings_read_in_a_step_are_recorded_by_their_dotted_names() -> None:
    def reads(content: lumia.Box[Any]) -> None:
        core = lumia.context.required("test").runtime.config
        assert core is not None
        core.core.worker.concurrency  # noqa: B018

    bot, _ = ran(reads)
    (read,) = recording(bot).reads
    assert (read.kind, read.name) == ("config", "lumia/worker.concurrency") and isinstance(read.value, int)


def test_a_value_that_changed_meanwhile_is_given_at_the_same_read() -> None:
    reads = Reads()
    for value in ("a", "a", "b", "b", "a"):
        reads.note("store", "k", ["value", json.dumps(value)])
    found, _ = unpacked(reads.detail(str)["reads"])
    assert [read.first for read in found] == [0, 2, 4]
    player = Player(Recording("r", 0, 1, found))
    assert [player.read("store", "k", list)[1] for _ in range(7)] == [f'"{x}"' for x in "aabbaaa"]


@given(st.lists(st.tuples(st.sampled_from("xyz"), VALUES), max_size=30))
def test_a_player_gives_any_sequence_of_reads_as_it_was(sequence: list[tuple[str, Any]]) -> None:
    reads = Reads()
    for name, value in sequence:
        reads.note("memory", name, value)
    step = JournalEntry("step", "r", step=0, attempt=1, detail=json.loads(json.dumps(reads.detail(str))))
    player = Player(Recording.of(step, []))
    assert [player.read("memory", name, list) for name, _ in sequence] == [value for _, value in sequence]
    assert player.misses == [] and player.leftovers() == []


def test_many_reads_are_compressed_and_too_many_are_told() -> None:
    reads = Reads()
    reads.note("memory", "m", "x" * PLAIN_BYTES)
    assert set(reads.detail(str)["reads"]) == {"z"}
    found, too_large = unpacked(reads.detail(str)["reads"])
    assert found[0].value == "x" * PLAIN_BYTES and not too_large
    reads.note("memory", "n", "x" * MAX_BYTES)
    step = JournalEntry("step", "r", step=0, attempt=1, detail=reads.detail(str))
    player = Player(Recording.of(step, []))
    assert player.read("memory", "m", lambda: "made now") == "made now"
    assert player.misses == [Missed("memory", "m", "reads not recorded: too large")]


def test_only_so_many_moments_are_kept_and_the_last_one_holds() -> None:
    reads = Reads()
    for second in range(MAX_TIMES + 5):
        reads.note("now", "", float(second))
    player = Player(Recording("r", 0, 1, unpacked(reads.detail(str)["reads"])[0]))
    given_ = [player.read("now", "", float) for _ in range(MAX_TIMES + 5)]
    assert given_ == [float(min(second, MAX_TIMES - 1)) for second in range(MAX_TIMES + 5)]


def test_what_a_replay_asks_and_nobody_recorded_is_missed_and_no_call_is_made() -> None:
    calls: list[int] = []

    def then(content: lumia.Box[Any]) -> None:
        lumia.store.get("old")
        lumia.effect("old call", list)

    def now(content: lumia.Box[Any]) -> None:
        lumia.store.get("new")
        lumia.effect("new call", calls.append, 1, kind="tool")

    player, result = replayed(now, recording(ran(then)[0]))
    assert result.outcome == "failed" and "a replay makes no call" in result.reason and calls == []
    assert [(miss.kind, miss.name) for miss in player.misses] == [("store", "test//new"), ("effect tool", "new call")]
    assert [(left.kind, left.name) for left in player.leftovers()] == [
        ("store", "test//old"), ("effect call", "old call"),
    ]  # fmt: skip


def test_a_call_with_other_arguments_is_told() -> None:
    def calls(number: int) -> Callable[..., None]:
        def handler(content: lumia.Box[Any]) -> None:
            lumia.effect("call", str, number)

        return handler

    found = recording(ran(calls(1))[0])
    assert replayed(calls(1), found)[0].misses == []
    (miss,) = replayed(calls(2), found)[0].misses
    assert (miss.name, "other arguments" in miss.why) == ("call", True)


class Away(Exception):
    """The world is not there."""


def test_a_failed_call_fails_in_the_replay_the_same_way() -> None:
    tries: list[str] = []

    def fails() -> None:
        raise Away("for lunch")

    def handler(content: lumia.Box[Any]) -> None:
        try:
            lumia.effect("call", fails)
        except Away as error:
            tries.append(f"{type(error).__name__} {error}")
        tries.append(lumia.effect("call", lambda: "back"))

    bot, _ = ran(handler)
    player, result = replayed(handler, recording(bot))
    assert tries == ["Away for lunch", "back"] * 2 and result.outcome != "failed" and player.misses == []


def test_a_retry_s_recording_has_the_result_of_the_first_try() -> None:
    seen: list[Any] = []

    def handler(content: lumia.Box[Any]) -> None:
        seen.append(lumia.effect("call", lambda: len(seen)))
        if len(seen) == 1:
            raise RuntimeError("once more")

    bot, _ = ran(handler)
    found = recording(bot, attempt=2)
    assert [(made.outcome, made.value) for made in found.effects] == [("done", '{"j":0}')]
    assert replayed(handler, found)[1].outcome != "failed" and seen == [0, 0, 0]


def test_a_held_effect_is_held_in_the_replay_too() -> None:
    def handler(content: lumia.Box[Any]) -> None:
        lumia.effect("call", list, policy="hold")

    found = Recording("r", 0, 1)
    entry = JournalEntry("effect", "r", step=0, outcome="held", attempt=1, detail={"effect": "call"})
    found = Recording.of(JournalEntry("step", "r", step=0, attempt=1), [entry])
    assert "its policy is 'hold'" in replayed(handler, found)[1].reason


def test_what_happens_inside_a_recorded_call_belongs_to_it() -> None:
    def recall() -> list[Any]:
        lumia.store.get("inner")
        return [lumia.effect("embed", lambda: 7, kind="embed"), lumia.system.random() < 2]

    def handler(content: lumia.Box[Any]) -> None:
        assert lumia.recorded("memory", "q", recall) == [7, True]
        chance.append(lumia.system.random())

    chance: list[float] = []
    bot, _ = ran(handler)
    found = recording(bot)
    assert [(read.kind, read.name) for read in found.reads] == [("memory", "q")] and found.effects == ()
    (effect,) = [entry for entry in entries(bot) if entry.kind == "effect"]
    assert effect.detail["inside"] == "memory q"
    player, _ = replayed(handler, found)
    assert player.leftovers() == [] and chance[0] == chance[1]


def test_a_service_records_json_only() -> None:
    def handler(content: lumia.Box[Any]) -> None:
        lumia.recorded("memory", "q", object)

    assert "what is recorded are JSON values" in ran(handler)[1].reason
    assert lumia.recorded("memory", "q", lambda: (1, 2)) == (1, 2)


def test_chance_differs_between_tries_and_steps_and_not_between_replays() -> None:
    drawn: list[Any] = []

    def handler(content: lumia.Box[Any]) -> None:
        drawn.append((lumia.system.random(), lumia.system.new_id()))
        if len(drawn) < 3:
            raise RuntimeError("once more")

    bot, _ = ran(handler, clock=ManualClock(1000.0))
    assert len(set(drawn)) == 3
    replayed(handler, recording(bot, attempt=2))
    assert drawn[3] == drawn[1]


def test_async_handlers_are_replayed_too() -> None:
    async def ask() -> int:
        await asyncio.sleep(0)
        return len(seen)

    async def handler(content: lumia.Box[Any]) -> None:
        seen.append(await lumia.effect("ask", ask))

    seen: list[int] = []
    replayed(handler, recording(ran(handler)[0]))
    assert seen == [0, 0]


def test_tokens_and_cost_stand_in_the_effect_and_summed_in_the_step() -> None:
    def answer(cost: float | None) -> dict[str, Any]:
        return {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 2, "requests": 1}, "cost": cost}

    def handler(content: lumia.Box[Any]) -> None:
        for number, cost in enumerate((0.5, 0.25, None)):
            lumia.effect(f"ask {number}", answer, cost, kind="model")
        lumia.effect("ask 0", answer, 0.5, kind="model")
        lumia.annotate(mood="fine")

    bot, _ = ran(handler)
    effects = [entry.detail for entry in entries(bot) if entry.kind == "effect"]
    assert [(one["model"], one["tokens_in"], one.get("cost")) for one in effects] == [
        ("m", 3, 0.5), ("m", 3, 0.25), ("m", 3, None),
    ]  # fmt: skip
    (step,) = [entry for entry in entries(bot) if entry.kind == "step"]
    figures = {name: step.detail[name] for name in ("tokens_in", "tokens_out", "cost", "unpriced", "mood")}
    assert figures == {"tokens_in": 9, "tokens_out": 6, "cost": 0.75, "unpriced": 1, "mood": "fine"}


def test_secrets_are_kept_from_reads_and_results_which_are_marked() -> None:
    got: list[Any] = []

    def handler(content: lumia.Box[Any]) -> None:
        got.append(lumia.store.get("account"))
        got.append(lumia.effect("log in", lambda: {"api_key": "abc123", "user": "ann"}))

    with Bot(marked(handler)) as bot:
        lumia.store.of("test").set("account", {"password": "hunter2", "user": "ann"})
        bot.start("it", 1)
        text = "".join(entry.dump() for entry in entries(bot))
    assert got == [{"password": "hunter2", "user": "ann"}, {"api_key": "abc123", "user": "ann"}]
    assert "hunter2" not in text and "abc123" not in text and "ann" in text
    player, _ = replayed(handler, recording(bot))
    assert [(one.kind, one.name) for one in player.inexact] == [
        ("store", "test//account"), ("effect call", "log in"),
    ]  # fmt: skip
    assert got[2:] == [{"password": "***", "user": "ann"}, {"api_key": "***", "user": "ann"}]


def test_an_error_of_a_class_that_is_not_at_hand_is_an_effect_error() -> None:
    entry = JournalEntry("effect", "r", step=0, outcome="failed", reason="Gone: away", attempt=1,
                         detail={"effect": "call", "error": "no.such.module:Gone"})  # fmt: skip
    found = Recording.of(JournalEntry("step", "r", step=0, attempt=1), [entry])

    def handler(content: lumia.Box[Any]) -> None:
        with pytest.raises(EffectError, match="Gone: away"):
            lumia.effect("call", list)

    assert replayed(handler, found)[1].outcome != "failed"
