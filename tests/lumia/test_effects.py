"""Calls to the outside world: made once, recorded, and given again to a retry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import lumia
from lumia.errors import EffectError
from lumia.journal import JournalEntry
from lumia.ports import EffectUse
from lumia.testing import Bot
from tests.support.wait import until

AT_ONCE = lumia.Retry(attempts=3, backoff=0)


class World:
    """The outside world: counts the calls, fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[Any] = []
        self.failures = failures

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        if len(self.calls) <= self.failures:
            raise OSError("the world is away")
        return len(self.calls), args

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return self.call(*args, **kwargs)


def run(act: Callable[[], Any], fail: int = 0, mark: Any = lumia.pipe.on) -> tuple[Any, list[Any], Bot]:
    """Run a handler that does `act` and fails afterwards `fail` times; returns result, what it got, the bot."""
    got: list[Any] = []

    @mark("it", retry=AT_ONCE)  # type: ignore[untyped-decorator]
    def acts(content: lumia.Box[Any]) -> None:
        got.append(act())
        if len(got) <= fail:
            raise RuntimeError("not yet")

    with Bot(acts) as bot:
        result = (bot.start if mark == lumia.pipe.on else bot.event)("it", 1)
        bot.settle()
        return result, got, bot


def arun(act: Callable[[], Any], fail: int = 0) -> tuple[Any, list[Any], Bot]:
    got: list[Any] = []

    @lumia.pipe.on("it", retry=AT_ONCE)
    async def acts(content: lumia.Box[Any]) -> None:
        got.append(await act())
        if len(got) <= fail:
            raise RuntimeError("not yet")

    with Bot(acts) as bot:
        result = bot.start("it", 1)
        bot.settle()
        return result, got, bot


def test_outside_of_a_step_the_call_is_simply_made() -> None:
    world = World()
    assert lumia.effect("pay", world.call, 1, to="ann") == (1, (1,))
    assert asyncio.run(lumia.effect("pay", world.acall)) == (2, ())
    assert world.calls == [((1,), {"to": "ann"}), ((), {})]


def test_a_retry_gets_the_recorded_result() -> None:
    world = World()
    result, got, _ = run(lambda: lumia.effect("pay", world.call, 5), fail=2)
    assert result.outcome == "done" and len(world.calls) == 1
    assert got == [(1, (5,))] * 3


def test_a_retry_of_an_async_handler_gets_it_too() -> None:
    world = World()
    result, got, _ = arun(lambda: lumia.effect("pay", world.acall, 5), fail=2)
    assert result.outcome == "done" and len(world.calls) == 1
    assert got == [(1, (5,))] * 3


def test_a_consumer_tried_again_on_its_own_gets_it_too() -> None:
    world = World()

    @lumia.event.consumer("it", priv=-1)
    def other(content: lumia.Box[Any]) -> None:
        """Make the retry a run of its own."""

    tries: list[Any] = []

    @lumia.event.consumer("it", retry=AT_ONCE)
    def acts(content: lumia.Box[Any]) -> None:
        tries.append(lumia.effect("pay", world.call, 5))
        if len(tries) < 3:
            raise RuntimeError("not yet")

    with Bot(acts, other) as bot:
        bot.event("it", 1)
        assert bot.dead == [] and tries == [(1, (5,))] * 3 and len(world.calls) == 1


def test_a_call_that_fails_is_made_again_by_the_retry() -> None:
    world = World(failures=2)
    result, got, bot = run(lambda: lumia.effect("pay", world.call))
    assert result.outcome == "done" and got == [(3, ())]
    entries = [entry for entry in bot.transport.tail("0", 0, 99) if entry.kind == "effect"]
    assert [entry.outcome for entry in entries] == ["failed", "failed", "done"]
    assert entries[0].reason == "OSError: the world is away"
    assert entries[0].detail == {"effect": "pay", "kind": "call", "policy": "retry", "error": "builtins:OSError"}
    assert [entry.attempt for entry in entries] == [1, 2, 3]


def test_a_call_at_most_once_is_not_made_again_after_it_failed() -> None:
    world = World(failures=1)
    result, _, bot = run(lambda: lumia.effect("pay", world.call, policy="hold"))
    assert result.outcome == "failed" and len(world.calls) == 1
    assert "its policy is 'hold'" in result.reason and "check the outside world" in result.reason
    assert "test.acts" in result.reason and result.run_id in result.reason
    assert [letter.attempts for letter in bot.dead] == [2]
    assert f"lumia effects settle {result.run_id} '0:pay' --done JSON" in result.reason
    made, held = [entry for entry in bot.transport.tail("0", 0, 99) if entry.kind == "effect"]
    assert (made.outcome, made.reason) == ("unknown", "OSError: the world is away")
    assert (held.outcome, held.attempt) == ("held", 2)


def lost(policy: str, policy_now: str) -> tuple[Any, World]:
    """Run a step whose first try died with its worker between intent and result."""
    world = World()

    @lumia.pipe.on("it")
    def acts(content: lumia.Box[Any]) -> None:
        lumia.effect("pay", world.call, policy=policy_now)

    with Bot(acts) as bot:
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        claim = bot.transport.take()
        assert claim is not None
        bot.transport.begin_effect(claim, EffectUse(run_id, "0:pay", policy, JournalEntry("effect", run_id)))
        bot.transport.push(bot.transport._runs[run_id])
        bot.settle()
        return lumia.runs.result(run_id), world


@pytest.mark.parametrize(
    "policy, policy_now, outcome, calls",
    [("retry", "retry", "done", 1), ("hold", "hold", "failed", 0), ("hold", "retry", "failed", 0),
     ("retry", "hold", "failed", 0)],
)  # fmt: skip
def test_an_unknown_outcome_follows_the_policy(policy: str, policy_now: str, outcome: str, calls: int) -> None:
    result, world = lost(policy, policy_now)
    assert (result.outcome, len(world.calls)) == (outcome, calls)


def test_a_second_use_of_a_key_gets_the_first_ones_result() -> None:
    world = World()
    _, got, _ = run(lambda: [lumia.effect("pay", world.call, 5) for _ in range(3)])
    assert got == [[(1, (5,))] * 3] and len(world.calls) == 1


def test_a_key_used_for_two_different_calls_is_refused_before_the_second_is_made() -> None:
    world = World()
    result, _, _ = run(lambda: [lumia.effect("pay", world.call, n) for n in range(3)])
    assert result.outcome == "failed" and len(result.steps) == 1 and len(world.calls) == 1
    assert "test.acts uses the effect key 'pay'" in result.reason and "a key of its own" in result.reason


def test_a_key_used_for_two_different_calls_is_refused_in_a_retry_too() -> None:
    world = World()
    tries: list[int] = []

    def act() -> None:
        tries.append(lumia.effect("pay", world.call, 1)[0])
        if len(tries) == 1:
            raise RuntimeError("once more")
        lumia.effect("pay", world.call, 2)

    result, _, _ = run(act)
    assert "different arguments" in result.reason and len(world.calls) == 1


def test_a_handler_may_try_a_failed_call_again_itself() -> None:
    world = World(failures=1)

    def act() -> Any:
        with pytest.raises(OSError, match="away"):
            lumia.effect("pay", world.call)
        return lumia.effect("pay", world.call)

    assert run(act)[1] == [(2, ())]


def test_but_not_one_that_must_not_be_made_twice() -> None:
    world = World(failures=1)

    def act() -> Any:
        with pytest.raises(OSError, match="away"):
            lumia.effect("pay", world.call, policy="hold")
        return lumia.effect("pay", world.call, policy="hold")

    result, _, _ = run(act)
    assert result.outcome == "failed" and len(world.calls) == 1


def test_arguments_that_can_not_be_compared_count_as_the_same() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    world = World()
    result, _, _ = run(lambda: [lumia.effect("pay", world.call, Odd()) and None for _ in range(2)])
    assert result.outcome == "failed" or len(world.calls) == 1


def test_each_key_and_each_step_has_a_record_of_its_own() -> None:
    world = World()

    def pays(name: str, priv: int) -> Any:
        def handler(content: lumia.Box[Any]) -> None:
            lumia.effect("pay", world.call, name)
            lumia.effect("pay.2", world.call, name)
            lumia.utils.next()

        handler.__name__ = name
        return lumia.pipe.on("it", priv=priv)(handler)

    with Bot(pays("one", 2), pays("two", 1)) as bot:
        bot.start("it", 1)
    assert [args for args, _ in world.calls] == [("one",), ("one",), ("two",), ("two",)]


@pytest.mark.parametrize("key", ["", None, 5, "a\x00", "\ud800", "x" * 513])
def test_a_key_is_text_that_can_be_stored(key: Any) -> None:
    with pytest.raises(EffectError, match="key is 1 to 512 printable characters"):
        lumia.effect(key, print)


def test_there_are_two_policies() -> None:
    with pytest.raises(EffectError, match="one of retry, hold"):
        lumia.effect("pay", print, policy="once")


def test_a_result_that_can_not_be_recorded_is_an_error_and_the_call_is_not_made_again() -> None:
    opened: list[Any] = []

    def opens() -> Any:
        opened.append(open(__file__))  # noqa: SIM115 (the point is a result that stays open)
        return opened[-1]

    def act() -> Any:
        with pytest.raises(EffectError, match="can't be recorded") as caught:
            lumia.effect("open", opens)
        raise EffectError(str(caught.value))

    result, _, _ = run(act)
    assert result.outcome == "failed" and "was made, but its result can't be recorded" in result.reason
    (file,) = opened
    file.close()


def test_a_lambda_around_an_async_function_is_told_to_pass_the_function() -> None:
    world = World()
    result, _, _ = run(lambda: lumia.effect("pay", lambda: world.acall()))
    assert "pass the `async def` function itself" in result.reason and world.calls == []


def test_a_future_instead_of_a_result_is_refused_too() -> None:
    async def act() -> Any:
        return lumia.effect("pay", lambda: asyncio.get_running_loop().create_future())

    assert "pass the `async def` function itself" in arun(act)[0].reason


def test_a_held_async_call_is_not_begun() -> None:
    world = World(failures=1)
    result, _, _ = arun(lambda: lumia.effect("pay", world.acall, policy="hold"))
    assert result.outcome == "failed" and len(world.calls) == 1
    assert "its policy is 'hold'" in result.reason


def test_what_is_awaited_after_its_step_is_not_made() -> None:
    world = World()
    late: list[Any] = []

    @lumia.pipe.on("it")
    async def acts(content: lumia.Box[Any]) -> None:
        late.append(asyncio.get_running_loop().create_task(waits(lumia.effect("pay", world.acall))))

    async def waits(call: Any) -> str:
        while not ended:
            await asyncio.sleep(0.001)
        try:
            await call
        except lumia.LumiaError as error:
            return str(error)
        return "made"

    ended: list[bool] = []
    with Bot(acts) as bot:
        bot.start("it", 1)
        ended.append(True)
        until(late[0].done)
        assert "test.acts has ended" in late[0].result() and world.calls == []


def test_the_reason_of_a_failed_call_can_be_stored() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    errors = [ValueError("a\x00\ud800" + "x" * 9999), Rude()]

    def fails() -> None:
        raise errors[len(tries) - 1]

    tries: list[int] = []

    def act() -> None:
        tries.append(1)
        if len(tries) < 3:
            lumia.effect("pay", fails)

    _, _, bot = run(act)
    reasons = [entry.reason for entry in bot.transport.tail("0", 0, 99) if entry.kind == "effect"]
    assert reasons[0].startswith("ValueError: a␀?xxx") and len(reasons[0]) == 500
    assert reasons[1] == "Rude: (its message can't be shown)"


def told(bot: Bot) -> list[JournalEntry]:
    return [entry for entry in bot.transport.tail("0", 0, 99) if entry.kind == "effect"]


def test_a_call_that_the_step_s_limit_cut_off_is_unknown_and_made_again() -> None:
    calls: list[int] = []

    async def call() -> str:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.sleep(60)
        return "answered"

    @lumia.pipe.on("it", retry=AT_ONCE, timeout=0.2)
    async def acts(content: lumia.Box[Any]) -> None:
        await lumia.effect("pay", call)

    with Bot(acts) as bot:
        bot.start("it", 1)
        bot.settle()
        until(lambda: len(told(bot)) == 2)
        first, second = told(bot)
    assert len(calls) == 2
    assert (first.outcome, first.attempt, second.outcome, second.attempt) == ("unknown", 1, "done", 2)


def test_async_effects_leave_the_event_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()

    @lumia.pipe.on("it")
    async def acts(content: lumia.Box[Any]) -> None:
        await lumia.effect("pay", World().acall)

    with Bot(acts) as bot:
        for name in ("begin_effect", "end_effect"):
            real = getattr(bot.transport, name)

            def spied(*args: Any, real: Any = real) -> Any:
                threads.add(threading.current_thread().name)
                return real(*args)

            monkeypatch.setattr(bot.transport, name, spied)
        bot.start("it", 1)
    assert threads and all(name.startswith("lumia-ledger") for name in threads)


def test_a_zombie_calls_nothing_and_its_step_is_discarded() -> None:
    world = World()

    @lumia.pipe.on("it")
    def acts(content: lumia.Box[Any]) -> None:
        run = bot.transport._runs[lumia.context.required("test").claim.run_id]
        if run.attempt == 1:  # the reaper takes it over meanwhile
            bot.transport.push(run)
        lumia.effect("pay", world.call)

    with Bot(acts) as bot:
        result = bot.start("it", 1)
        assert result.outcome == "done" and len(world.calls) == 1
        assert [entry.attempt for entry in told(bot)] == [2]
        assert bot.transport.health().counters == {"stale effects": 1}


def test_the_digest_tells_arguments_apart_and_knows_no_secret() -> None:
    def digests(*calls: dict[str, Any]) -> list[str]:
        _, _, bot = run(lambda: [lumia.effect(f"call {n}", dict, **given) for n, given in enumerate(calls)])
        return [entry.detail["args"] for entry in told(bot)]

    one, same, other = digests({"a": 1, "b": [b"x"]}, {"b": [b"x"], "a": 1}, {"a": 2})
    assert one == same != other
    first, second = digests({"password": "a"}, {"password": "b"})
    assert first == second


def test_a_kind_is_one_of_those_traces_know() -> None:
    with pytest.raises(EffectError, match="kind is one of call, model, embed, tool, send, http"):
        lumia.effect("pay", print, kind="htpp")
