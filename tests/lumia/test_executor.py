"""Executing steps: whatever a handler does, its run gets an end that explains itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumia
from lumia.errors import StaleClaimError, UnknownRunError
from lumia.executor import MAX_TRACE, StepListener, expected_type
from lumia.journal import JournalEntry
from lumia.ports import Claim, Limits
from lumia.routes import PlanStep
from lumia.testing import Bot, ManualClock

Boxed = lumia.Box[Any]
ONCE = lumia.Retry(attempts=1)


class Odd:
    """A value that can't be compared, as arrays can't."""

    def __ne__(self, other: object) -> bool:
        raise ValueError("the truth value is ambiguous")

    __eq__ = __ne__
    __hash__ = None  # type: ignore[assignment]


class Rude(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("can't be shown")

    __repr__ = __str__


class RudeExit(SystemExit):
    def __str__(self) -> str:
        raise RuntimeError("can't be shown")

    __repr__ = __str__


def raising(error: BaseException) -> Callable[[Boxed], Any]:
    def act(content: Boxed) -> None:
        raise error

    return act


def recursing(content: Boxed) -> Any:
    return recursing(content)


def generating(content: Boxed) -> Any:
    return (n for n in range(3))


async def forgotten() -> None:
    """Be created and never awaited."""


def spoiling_meta(content: Boxed) -> None:
    content.meta["shift"] = Odd()


def odd_meta(content: Boxed) -> None:
    content.meta["set"] = {1, 2}
    lumia.utils.next()


def huge_box(content: Boxed) -> None:
    lumia.utils.next(lumia.Box.any("x" * (2 << 20)))


def huge_meta(content: Boxed) -> None:
    content.meta["x"] = "x" * (2 << 20)
    lumia.utils.next()


def rubbish_beside_next(content: Boxed) -> Any:
    lumia.utils.next(lumia.Box.any("fine"))
    return {"not": "fine"}


def open_file(content: Boxed) -> None:
    with open(__file__) as file:
        lumia.utils.next(lumia.Box.any(file))


@pytest.mark.parametrize(
    "act, reason",
    [
        (raising(ValueError("no luck")), "ValueError: no luck"),
        (raising(SystemExit("I leave")), "FlowError: test.acts tried to exit the process: SystemExit: I leave"),
        (raising(RudeExit()), "tried to exit the process: RudeExit: (its message can't be shown)"),
        (raising(GeneratorExit()), "GeneratorExit: "),
        (raising(asyncio.CancelledError("late")), "CancelledError: late"),
        (raising(Rude()), "Rude: (its message can't be shown)"),
        (raising(BaseExceptionGroup("many", [SystemExit(1)])), "many (1 sub-exception)"),
        (raising(ValueError("a\x00b\ud800")), "ValueError: a␀b?"),
        (raising(StaleClaimError("mine")), "StaleClaimError: mine"),
        (recursing, "RecursionError: maximum recursion depth exceeded"),
        (lambda content: {"not": "a box"}, "returned a dict; return nothing"),
        (lambda content: content, "returned a Box; return nothing; content goes on by next(box)"),
        (lambda content: 0, "returned a int"),
        (generating, "returned a generator nobody runs"),
        (lambda content: forgotten(), "returned a coroutine nobody runs; make the handler `async def`"),
        (rubbish_beside_next, "returned a dict"),
        (spoiling_meta, "BoxError: meta of a Box takes JSON values only: meta['shift']"),
        (odd_meta, "BoxError"),
        (huge_box, "BoxTooLargeError"),
        (huge_meta, "BoxTooLargeError"),
        (open_file, "ArcError"),
    ],
)
def test_whatever_a_handler_does_its_run_ends_with_a_reason(act: Callable[[Boxed], Any], reason: str) -> None:
    @lumia.pipe.on("it", priv=2, retry=ONCE)
    def acts(content: Boxed) -> Any:
        return act(content)

    @lumia.pipe.on("it", priv=1)
    def behind(content: Boxed) -> None:
        lumia.store.set("reached", True)

    with Bot(acts, behind) as bot:
        result = bot.start("it", lumia.Box.any("content", meta={"shift": [0.5]}))
        assert result.outcome == "failed" and reason in result.reason
        assert [step.outcome for step in result.steps] == ["failed"]
        (letter,) = bot.dead
        assert (letter.handler, letter.attempts, letter.error) == ("test.acts", 1, result.reason)
        assert lumia.Box.load(letter.box, bot.runtime.secret).into() == "content"
        assert lumia.store.of("test").get("reached") is None


@pytest.mark.parametrize(
    "act, reason",
    [
        (lambda content: {"not": "a box"}, "(chain) returned a dict; return lumia.Box.any(value)"),
        (spoiling_meta, "meta['shift']"),
        (odd_meta, "next() belongs to pipelines"),
    ],
)
def test_a_chain_goes_on_unchanged_without_a_link_that_fails(act: Callable[[Boxed], Any], reason: str) -> None:
    @lumia.event.chain("it", retry=ONCE)
    def acts(content: Boxed) -> Any:
        return act(content)

    @lumia.event.consumer("it")
    def behind(content: Boxed) -> None:
        lumia.store.set("seen", [content.into(), content.meta])

    with Bot(acts, behind) as bot:
        result = bot.event("it", lumia.Box.any("content", meta={"shift": [0.5]}))
        assert result.outcome == "done" and reason in result.steps[0].reason
        assert lumia.store.of("test").get("seen") == ["content", {"shift": [0.5]}]


def test_content_of_a_consumer_or_interceptor_stays_what_it_was() -> None:
    def spoils(content: Boxed) -> None:
        content.into().append("spoilt")
        content.meta["spoilt"] = True

    guard = lumia.event.interceptor("it")(spoils)

    @lumia.event.consumer("it", priv=1)
    def first(content: Boxed) -> None:
        spoils(content)

    @lumia.event.consumer("it")
    def second(content: Boxed) -> None:
        lumia.store.set("seen", [content.into(), content.meta])

    with Bot(guard, first, second) as bot:
        assert bot.event("it", ["content"]).outcome == "done"
        assert lumia.store.of("test").get("seen") == [["content"], {}]


def test_a_failing_step_leaves_its_content_as_it_was_for_the_next_try() -> None:
    tries: list[Any] = []

    @lumia.pipe.on("it", retry=lumia.Retry(backoff=0))
    def acts(content: Boxed) -> None:
        tries.append((content.into(), dict(content.meta)))
        content.meta["tried"] = True
        if len(tries) < 3:
            raise RuntimeError("not yet")

    with Bot(acts) as bot:
        bot.start("it", [1])
        assert tries == [([1], {})] * 3


def test_retries_wait_as_the_policy_says() -> None:
    tries: list[float] = []

    @lumia.pipe.on("it", retry=lumia.Retry(attempts=4, backoff=10, max_delay=15))
    def acts(content: Boxed) -> None:
        tries.append(lumia.system.now())
        raise RuntimeError("not yet")

    with Bot(acts, clock=ManualClock(start=0)) as bot:
        result = bot.start("it", 1)
        assert result.outcome is None
        bot.settle(100)
        assert tries == [0, 10, 25, 40]
        assert bot.dead[0].attempts == 4 and bot.dead[0].time == 40


def test_a_clock_set_back_delays_no_retry() -> None:
    tries: list[int] = []

    @lumia.pipe.on("it", retry=lumia.Retry(attempts=2, backoff=10))
    def acts(content: Boxed) -> None:
        tries.append(1)
        raise RuntimeError("not yet")

    with Bot(acts, clock=(clock := ManualClock())) as bot:
        bot.start("it", 1)
        clock.move(-86_400)
        bot.settle(10)
        assert len(tries) == 2 and len(bot.dead) == 1


def test_ctrl_c_in_the_main_thread_ends_the_program() -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        raise KeyboardInterrupt

    with Bot(acts) as bot, pytest.raises(KeyboardInterrupt):
        bot.start("it", 1)


def test_in_a_worker_thread_it_is_a_handler_that_misbehaves() -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        raise KeyboardInterrupt

    with Bot(acts) as bot:
        bot.transport.serve(bot.runtime, threads=1)
        result = lumia.runs.wait(lumia.pipe.start("it", lumia.Box.any(1)), timeout=10)
        assert result.outcome == "failed" and "tried to exit the process: KeyboardInterrupt" in result.reason


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
def test_an_async_handler_that_exits_takes_no_other_handler_along(error: BaseException) -> None:
    @lumia.pipe.on("exits")
    async def exits(content: Boxed) -> None:
        raise error

    @lumia.pipe.on("works")
    async def works(content: Boxed) -> None:
        await asyncio.sleep(0)
        lumia.store.set("worked", content.into())

    with Bot(exits, works) as bot:
        bot.transport.serve(bot.runtime, threads=2)
        failed = lumia.runs.wait(lumia.pipe.start("exits", lumia.Box.any(1)), timeout=10)
        assert "tried to exit the process" in failed.reason
        worked = lumia.runs.wait(lumia.pipe.start("works", lumia.Box.any(2)), timeout=10)
        assert worked.outcome == "done" and lumia.store.of("test").get("worked") == 2


def test_a_hanging_async_handler_is_cancelled_at_the_bots_limit() -> None:
    @lumia.pipe.on("it", retry=ONCE)
    async def acts(content: Boxed) -> None:
        await asyncio.Event().wait()

    with Bot(acts, limits=Limits(step_timeout=0.05)) as bot:
        assert bot.start("it", 1).reason == "LumiaError: test.acts ran longer than its 0.05 s and was cancelled"


def test_the_traceback_in_the_journal_ends_with_the_error() -> None:
    def deep(left: int) -> None:
        if left:
            return deep_too(left)
        raise ValueError("at the bottom")

    def deep_too(left: int) -> None:
        return deep(left - 1)

    @lumia.pipe.on("it", retry=ONCE)
    def acts(content: Boxed) -> None:
        deep(100)

    with Bot(acts) as bot:
        bot.start("it", 1)
        entry = next(entry for entry in bot.transport.tail("0", 0, 99) if entry.kind == "step")
        trace = entry.detail["trace"]
        assert len(trace) == MAX_TRACE
        assert trace.rstrip().endswith("ValueError: at the bottom") and "in deep\n" in trace


def test_a_huge_message_is_cut_and_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-please")

    @lumia.pipe.on("it", retry=ONCE)
    def acts(content: Boxed) -> None:
        raise ValueError("key open-sesame-please " + "x" * (4 << 20))

    with Bot(acts) as bot:
        result = bot.start("it", 1)
        assert len(result.reason) == 500 and result.reason.startswith("ValueError: key ***")
        assert all("sesame" not in str(entry.detail.get("trace")) for entry in bot.transport.tail("0", 0, 99))


def test_a_box_of_another_bot_is_refused_before_the_handler_sees_it() -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        lumia.store.set("reached", True)

    with Bot(acts) as bot:
        run_id = lumia.pipe.start("it", lumia.Box.any({1, 2}))
        bot.transport._runs[run_id].box = lumia.Box.any({1, 2}).dump(b"another bot's secret, 32 bytes...")
        bot.settle()
        result = lumia.runs.result(run_id)
        assert result is not None and "BoxSignatureError" in result.reason and len(result.steps) == 1
        assert lumia.store.of("test").get("reached") is None


def test_a_wrong_type_is_named_with_handler_expected_and_actual() -> None:
    @lumia.pipe.on("it")
    def acts(content: lumia.Box[str]) -> None:
        content.into()

    with Bot(acts) as bot:
        assert bot.start("it", "text").outcome == "done"
        reason = bot.start("it", 5).reason
        assert all(text in reason for text in ("BoxTypeError", "test.acts", "Box[str]", "int"))


def test_meta_edits_persist_beside_a_declared_type() -> None:
    @lumia.pipe.on("it", priv=2)
    def acts(content: lumia.Box[str]) -> None:
        content.meta["force_engage"] = True
        lumia.utils.next()

    @lumia.pipe.on("it", priv=1)
    def behind(content: Boxed) -> None:
        lumia.store.set("meta", content.meta)

    with Bot(acts, behind) as bot:
        bot.start("it", "text")
        assert lumia.store.of("test").get("meta") == {"force_engage": True}


def test_the_expected_type_is_the_t_of_the_first_box() -> None:
    def declared(src: str, content: lumia.Box[int]) -> lumia.Box[str]:
        raise NotImplementedError

    def bare(content: lumia.Box) -> None:  # type: ignore[type-arg]
        raise NotImplementedError

    assert expected_type(declared) is int
    assert expected_type(bare) is None


@pytest.mark.parametrize("annotation", ["lumia.Box[", "Nowhere", "lumia.Box[1/0]", "5", "lumia.nothing"])
def test_an_annotation_that_can_not_be_evaluated_declares_nothing(annotation: str) -> None:
    def handler(content: Any) -> None:
        """Do nothing."""

    handler.__annotations__ = {"content": annotation}
    assert expected_type(handler) is None


def test_a_handler_that_was_removed_is_skipped() -> None:
    @lumia.pipe.on("it", priv=2)
    def gone(content: Boxed) -> None:
        raise AssertionError

    @lumia.pipe.on("it", priv=1)
    def stays(content: Boxed) -> None:
        lumia.store.set("reached", True)

    with Bot(gone, stays) as bot:
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        del bot.runtime.handlers["test.gone"]
        bot.transport.publish(replace(bot.table, routes=bot.table.routes[1:]))
        bot.settle()
        result = lumia.runs.result(run_id)
        assert result is not None and result.outcome == "done"
        assert [(step.outcome, step.reason) for step in result.steps] == [("skipped", "removed"), ("stop", "")]


def _publish_generation(bot: Bot, generation: str) -> None:
    routes = tuple(replace(route, generation=generation) for route in bot.table.routes)
    bot.runtime.use_routes(bot.transport.publish(replace(bot.table, routes=routes)))


def test_a_worker_behind_the_plan_hands_the_step_back_until_it_has_caught_up() -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        lumia.store.incr("acted")

    clock = ManualClock()
    with Bot(acts, clock=clock) as bot:
        _publish_generation(bot, "newer")
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        bot.settle(5)
        assert lumia.runs.result(run_id).outcome is None  # type: ignore[union-attr]
        bot.runtime.handlers["test.acts"] = replace(bot.runtime.handlers["test.acts"], generation="newer")
        bot.settle(60)
        result = lumia.runs.result(run_id)
        assert result is not None and result.outcome == "done"
        assert [step.outcome for step in result.steps] == ["stop"]


def test_a_step_that_no_worker_can_do_as_planned_is_a_dead_letter_in_the_end() -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        raise AssertionError

    with Bot(acts, clock=ManualClock(), limits=Limits(handbacks=3)) as bot:
        _publish_generation(bot, "newer")
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        bot.settle(3600)
        result = lumia.runs.result(run_id)
        assert result is not None and result.outcome == "failed"
        assert "handed back 3 times" in bot.dead[0].error and "generation newer" in bot.dead[0].error


def test_a_plan_older_than_what_is_published_runs_with_todays_handler() -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        lumia.store.incr("acted")

    with Bot(acts) as bot:
        table = bot.table
        _publish_generation(bot, "older")
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        bot.runtime.use_routes(bot.transport.publish(table))
        bot.settle()
        assert lumia.runs.result(run_id).outcome == "done"  # type: ignore[union-attr]


def test_a_draining_process_leaves_the_next_step_to_others() -> None:
    @lumia.pipe.on("it", priv=2)
    def first(content: Boxed) -> None:
        bot.runtime.draining = True
        lumia.utils.next()

    @lumia.pipe.on("it", priv=1)
    def second(content: Boxed) -> None:
        raise AssertionError

    with Bot(first, second) as bot:
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        claim = bot.transport.take()
        bot.runtime.executor.process(claim)
        record = bot.transport.run(run_id)
        assert record is not None and (record.state, len(record.steps)) == ("queued", 1)


def test_a_secret_in_an_error_reaches_no_listener() -> None:
    @lumia.pipe.on("it", retry=1)
    def leaks(content: Boxed) -> None:
        raise RuntimeError("refused: sk-verysecret")

    class Heard(StepListener):
        errors: ClassVar[list[str]] = []

        def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
            self.errors.append(error)

    with Bot(leaks) as bot:
        bot.runtime.redact = lambda text: text.replace("sk-verysecret", "…")
        lumia.pipe.start("it", lumia.Box.any(1))
        bot.runtime.executor.process(bot.transport.take(), Heard())
        assert "RuntimeError: refused: …" in Heard.errors[0] and "sk-verysecret" not in Heard.errors[0]


def test_a_step_that_was_lost_too_often_is_given_up() -> None:
    @lumia.pipe.on("it", retry=2)
    def acts(content: Boxed) -> None:
        raise AssertionError

    with Bot(acts) as bot:
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        run = bot.transport._runs[run_id]
        run.attempt = run.losses = 5
        bot.settle()
        result = lumia.runs.result(run_id)
        assert result is not None and result.reason == "given up: 5 tries were lost with their workers"
        assert (bot.dead[0].error, bot.dead[0].attempts) == (result.reason, 5)


def test_a_lost_try_is_no_failed_one() -> None:
    tries = []

    @lumia.pipe.on("it", retry=lumia.Retry(attempts=2, backoff=0.0))
    def fails(content: Boxed) -> None:
        tries.append(1)
        raise RuntimeError("no luck")

    with Bot(fails) as bot:
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        run = bot.transport._runs[run_id]
        run.attempt = run.losses = 2
        bot.settle()
        assert len(tries) == 2 and bot.dead[0].attempts == 4


def test_a_result_that_comes_too_late_is_discarded(caplog: pytest.LogCaptureFixture) -> None:
    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        lumia.store.set("late", True)
        lumia.pipe.start("it", lumia.Box.any(2))
        with open(__file__) as file:
            lumia.event.start("file", lumia.Box.any(file))
        bot.transport._runs[run_id].token += 1

    @lumia.event.consumer("file")
    def never(content: Boxed) -> None:
        raise AssertionError

    heard = Listener()
    with Bot(acts, never) as bot, caplog.at_level(logging.WARNING, "lumia"):
        run_id = lumia.pipe.start("it", lumia.Box.any(1))
        bot.runtime.executor.process(bot.transport.take(), heard)
        assert lumia.store.of("test").get("late") is None and bot.transport.take() is None
        assert "discarded a stale result" in caplog.text
        assert [outcome for outcome, _ in heard.ended_steps] == ["stale"]


class Listener(StepListener):
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended_steps: list[tuple[str, str]] = []

    def started(self, claim: Claim, step: Any) -> None:
        super().started(claim, step)
        self.begun.append(step.handler)

    def ended(self, claim: Claim, step: Any, outcome: str, error: str, seconds: float) -> None:
        super().ended(claim, step, outcome, error, seconds)
        self.ended_steps.append((outcome, error.strip().splitlines()[-1] if error else ""))


def test_a_listener_hears_of_every_step() -> None:
    @lumia.pipe.on("it", priv=2)
    def first(content: Boxed) -> None:
        lumia.utils.next()

    @lumia.pipe.on("it", priv=1, retry=ONCE)
    def second(content: Boxed) -> None:
        raise ValueError("no")

    heard = Listener()
    with Bot(first, second) as bot:
        lumia.pipe.start("it", lumia.Box.any(1))
        bot.runtime.executor.process(bot.transport.take(), heard)
        assert heard.begun == ["test.first", "test.second"]
        assert heard.ended_steps == [("done", ""), ("failed", "ValueError: no")]


# --- one message, many steps


@lumia.pipe.on("chain", priv=2)
def chain_first(content: Boxed) -> None:
    lumia.utils.next()


@lumia.pipe.on("chain", priv=1)
def chain_second(content: Boxed) -> None:
    lumia.store.incr("ran")


@pytest.mark.parametrize("fuse, batch, claims", [(True, 16, 1), (True, 1, 3), (False, 1, 6)])
def test_fusion_and_batches_change_speed_but_not_meaning(fuse: bool, batch: int, claims: int) -> None:
    limits = Limits(fuse=fuse, batch=batch, batch_seconds=60)
    with Bot(chain_first, chain_second, limits=limits) as bot:
        runs = [lumia.pipe.start("chain", lumia.Box.any(n)) for n in range(3)]
        assert bot.transport.drain(bot.runtime) == claims
        assert lumia.store.of("test").get("ran") == 3
        assert {lumia.runs.result(run).outcome for run in runs} == {"done"}  # type: ignore[union-attr]


def behaving(name: str, priv: int, how: str) -> Callable[..., Any]:
    """Return a pipeline handler that notes that it ran and does what `how` says."""
    tries: list[int] = []

    def handler(content: Boxed) -> None:
        tries.append(1)
        lumia.store.append("story", [name, content.into(), content.meta])
        if how == "raise" or (how == "raise once" and len(tries) == 1):
            raise RuntimeError(how)
        if how == "stop":
            lumia.utils.stop("enough")
        elif how == "meta":
            content.meta[name] = len(tries)
        elif how == "child":
            lumia.event.start("child", lumia.Box.any(name))
        if how == "box":
            lumia.utils.next(lumia.Box.any(name))
        elif how not in ("stop", "end"):
            lumia.utils.next()

    handler.__name__ = name
    return lumia.pipe.on("it", priv=priv, retry=lumia.Retry(attempts=2, backoff=0))(handler)


HOW = st.sampled_from(["next", "next", "box", "meta", "child", "raise once", "raise", "stop", "end"])


@lumia.event.consumer("child")
def noted_child(content: Boxed) -> None:
    lumia.store.append("story", ["child of", content.into()])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(-2, 2), HOW), min_size=1, max_size=5))
def test_no_pipeline_notices_whether_its_steps_are_fused(chain: list[tuple[int, str]]) -> None:
    def told(limits: Limits) -> Any:
        handlers = [behaving(f"h{n}", priv, how) for n, (priv, how) in enumerate(chain)]
        with Bot(*handlers, noted_child, limits=limits, clock=ManualClock()) as bot:
            result = bot.start("it", "content")
            kinds = [(entry.kind, entry.handler, entry.outcome) for entry in bot.transport.tail("0", 0, 999)]
            letters = [(letter.handler, letter.error) for letter in bot.dead]
            # A child and its parent's next step run at the same time, in any order.
            story = sorted(lumia.store.of("test").items("story"), key=lambda entry: entry[0] == "child of")
            return result, story, sorted(kinds), letters

    fused = told(Limits(fuse=True))
    assert fused == told(Limits(fuse=False, batch=1))
    order = [n for n, (priv, _) in sorted(enumerate(chain), key=lambda item: -item[1][0])]
    ran = [name for name, *_ in fused[1] if name != "child of"]
    assert ran == [f"h{n}" for n in order][: len(ran)]


def test_a_draining_process_takes_no_further_run() -> None:
    with Bot(noted_child, limits=Limits(batch_seconds=60)) as bot:
        for n in range(3):
            lumia.event.start("child", lumia.Box.any(n))
        bot.runtime.draining = True
        bot.runtime.executor.process(bot.transport.take())
        assert lumia.store.of("test").items("story") == [["child of", 0]]
        bot.runtime.draining = False
        bot.runtime.executor.process(bot.transport.take())
        assert lumia.store.of("test").items("story") == [["child of", n] for n in range(3)]


def test_a_batch_ends_when_its_time_is_over() -> None:
    @lumia.pipe.on("slow")
    def slow(content: Boxed) -> None:
        clock.move(0.06)

    with Bot(slow, clock=(clock := ManualClock())) as bot:
        for n in range(3):
            lumia.pipe.start("slow", lumia.Box.any(n))
        assert bot.transport.drain(bot.runtime) == 3


def test_steps_with_a_hard_limit_are_neither_fused_nor_batched() -> None:
    @lumia.pipe.on("it", priv=3)
    def soft(content: Boxed) -> None:
        lumia.utils.next()

    @lumia.pipe.on("it", priv=2, hard=True, timeout=5)
    def hard(content: Boxed) -> None:
        lumia.utils.next()

    @lumia.pipe.on("it", priv=1)
    def soft_again(content: Boxed) -> None:
        """End."""

    with Bot(soft, hard, soft_again, limits=Limits(batch_seconds=60)) as bot:
        lumia.pipe.start("it", lumia.Box.any(1))
        assert bot.transport.drain(bot.runtime) == 3


# --- live resources


def box() -> lumia.Box[Any]:
    return lumia.Box.any(open(__file__))


def test_next_changes_the_content_of_an_inline_run_too() -> None:
    @lumia.pipe.on("file", priv=3)
    def reads(content: Boxed) -> None:
        content.meta["from"] = "a file"
        lumia.utils.next()

    @lumia.pipe.on("file", priv=2)
    def changes(content: Boxed) -> None:
        lumia.utils.next(lumia.Box.any(content.into().read(3), meta=content.meta))

    @lumia.pipe.on("file", priv=1)
    def sees(content: Boxed) -> None:
        lumia.store.set("seen", [content.into(), content.meta])

    with Bot(reads, changes, sees):
        lumia.pipe.start("file", box())
        assert lumia.store.of("test").get("seen") == ['"""', {"from": "a file"}]


def test_a_failed_try_changes_nothing_of_an_inline_run() -> None:
    tries: list[Any] = []

    @lumia.pipe.on("file", retry=lumia.Retry(backoff=60))
    def acts(content: Boxed) -> None:
        tries.append(dict(content.meta))
        content.meta["tried"] = True
        lumia.utils.next(lumia.Box.any("lost"))
        if len(tries) < 3:
            raise RuntimeError("not yet")

    with Bot(acts):
        result = lumia.runs.result(lumia.pipe.start("file", box()))
        assert result is not None and result.outcome == "done" and tries == [{}, {}, {}]


def test_an_inline_consumer_is_tried_again_with_its_resource() -> None:
    tries: list[str] = []

    @lumia.event.consumer("file", priv=2)
    def acts(content: Boxed) -> None:
        content.into().seek(0)
        tries.append(content.into().read(3))
        if len(tries) < 3:
            raise RuntimeError("not yet")

    @lumia.event.consumer("file", priv=1)
    def other(content: Boxed) -> None:
        tries.append("other")

    with Bot(acts, other) as bot:
        result = lumia.runs.result(lumia.event.start("file", box()))
        assert result is not None and result.outcome == "done"
        assert tries == ['"""'] * 3 + ["other"] and bot.dead == []


def test_a_step_that_fails_uses_no_resource_it_would_have_passed_on() -> None:
    opened: list[Any] = []

    @lumia.pipe.on("it", retry=ONCE)
    def acts(content: Boxed) -> None:
        opened.append(open(__file__))  # noqa: SIM115 (its run closes it)
        lumia.event.start("file", lumia.Box.any(opened[0]))
        raise RuntimeError("after all")

    @lumia.event.consumer("file")
    def never(content: Boxed) -> None:
        raise AssertionError

    with Bot(acts, never) as bot:
        result = bot.start("it", 1)
        assert result.reason == "RuntimeError: after all" and len(result.steps) == 1
        assert opened[0].closed


def test_a_refused_commit_uses_no_resource_either() -> None:
    @lumia.pipe.on("it", retry=ONCE)
    def acts(content: Boxed) -> None:
        with open(__file__) as file:
            lumia.event.start("file", lumia.Box.any(file))
            content.meta["bad"] = {1, 2}
            lumia.utils.next()

    @lumia.event.consumer("file")
    def never(content: Boxed) -> None:
        raise AssertionError

    with Bot(acts, never) as bot:
        assert "BoxError" in bot.start("it", 1).reason


def test_resources_are_used_in_order_after_the_commit_and_closed_one_by_one() -> None:
    order: list[Any] = []
    files: list[Any] = []

    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        for _ in range(3):
            files.append(open(__file__))  # noqa: SIM115 (its run closes it)
            lumia.event.start("file", lumia.Box.any(files[-1]))
        order.append([file.closed for file in files])

    @lumia.event.consumer("file")
    def uses(content: Boxed) -> None:
        order.append([file.closed for file in files])

    with Bot(acts, uses) as bot:
        assert bot.start("it", 1).outcome == "done"
    assert order == [[False] * 3, [False] * 3, [True, False, False], [True, True, False]]
    assert all(file.closed for file in files)


# --- a transport that goes away


def test_an_unknown_run_is_not_committed() -> None:
    with Bot(chain_first, chain_second) as bot:
        lumia.pipe.start("chain", lumia.Box.any(1))
        claim = bot.transport.take()
        assert claim is not None
        with pytest.raises(UnknownRunError):
            bot.runtime.executor.process(replace(claim, run_id="nobody"))


def test_two_threads_work_for_one_bot_each_with_its_own_step() -> None:
    meeting = threading.Barrier(2, timeout=10)

    @lumia.pipe.on("it")
    def acts(content: Boxed) -> None:
        lumia.store.set(str(content.into()), "mine")
        meeting.wait()
        assert [op.key for op in lumia.context.required("test").writes] == [f"test//{content.into()}"]

    with Bot(acts) as bot:
        bot.transport.serve(bot.runtime, threads=2)
        runs = [lumia.pipe.start("it", lumia.Box.any(n)) for n in range(2)]
        assert [lumia.runs.wait(run, 10).outcome for run in runs] == ["done", "done"]


def test_the_commit_is_what_the_journal_tells() -> None:
    with Bot(chain_first, chain_second) as bot:
        bot.start("chain", 1)
        steps = [entry for entry in bot.transport.tail("0", 0, 99) if entry.kind == "step"]
        assert [(entry.handler, entry.outcome, entry.attempt) for entry in steps] == [
            ("test.chain_first", "next", 1), ("test.chain_second", "stop", 1),
        ]  # fmt: skip
        assert all(isinstance(entry, JournalEntry) and entry.worker == bot.runtime.worker for entry in steps)


def test_what_an_exception_tells_of_secrets_is_hidden_in_journal_and_letter() -> None:
    @lumia.pipe.on("in", retry=1)
    def leaks(content: lumia.Box[Any]) -> None:
        raise RuntimeError("login failed: password=hunter2 at https://bob:pw123@host/x")

    with Bot(leaks) as bot:
        bot.start("in", {})
        (letter,) = bot.dead
        told = [entry for entry in bot.transport.tail("0", 0, 100) if entry.kind in ("step", "end", "dead")]
    texts = [letter.error, letter.trace, *(one.error for one in letter.history), *(entry.dump() for entry in told)]
    assert all("hunter2" not in text and "pw123" not in text for text in texts)
    assert "login failed: password=***" in letter.error
