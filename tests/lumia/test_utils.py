"""`next`, `stop` and `intercept`: what each does, and where it has no meaning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.errors import FlowError
from lumia.testing import Bot, ManualClock

Handler = Callable[[lumia.Box[Any]], Any]


def run(act: Callable[[], Any], mark: Any = lumia.pipe.on, **options: Any) -> Any:
    """Run a handler that does `act`, with another one behind it that notes the content it got."""

    @mark("it", priv=2, **options)  # type: ignore[untyped-decorator]
    def acts(content: lumia.Box[Any]) -> None:
        act()

    @lumia.pipe.on("it", priv=1)
    def behind_pipe(content: lumia.Box[Any]) -> None:
        lumia.store.set("seen", content.into())

    @lumia.event.consumer("it", priv=1)
    def behind_event(content: lumia.Box[Any]) -> None:
        lumia.store.set("seen", content.into())

    with Bot(acts, behind_pipe, behind_event) as bot:
        kind = bot.start if mark == lumia.pipe.on else bot.event
        result = kind("it", "first")
        return result, lumia.store.of("test").get("seen")


def test_next_passes_the_content_on() -> None:
    result, seen = run(lumia.utils.next)
    assert (result.outcome, seen) == ("done", "first")


def test_next_with_a_box_changes_the_content() -> None:
    assert run(lambda: lumia.utils.next(lumia.Box.any("second")))[1] == "second"


def test_stop_gives_the_reason() -> None:
    result, seen = run(lambda: lumia.utils.stop("cooldown"))
    assert (result.outcome, result.reason, seen) == ("stopped", "cooldown", None)


@pytest.mark.parametrize("reason, shown", [("", "stopped"), (42, "42"), ("a\x00\ud800b", "a␀?b"), ("x" * 999, None)])
def test_any_reason_ends_up_as_text_that_can_be_stored(reason: Any, shown: str | None) -> None:
    result, _ = run(lambda: lumia.utils.stop(reason))
    assert result.outcome == "stopped"
    assert result.reason == (shown or "x" * 499 + "…")


@pytest.mark.parametrize(
    "reason, shown",
    [(None, "intercepted by test.acts"), ("spam", "spam"), ({"why": 1}, "{'why': 1}"), (0, "0"), ("\x00\udfff", "␀?")],
)
def test_intercept_blocks_the_event_for_any_reason(reason: Any, shown: str) -> None:
    result, seen = run(lambda: lumia.utils.intercept(reason), lumia.event.interceptor)
    assert (result.outcome, result.reason, seen) == ("blocked", shown, None)


def twice() -> None:
    lumia.utils.next()
    lumia.utils.next()


def next_after_stop() -> None:
    lumia.utils.stop("no")
    lumia.utils.next()


def stop_after_next() -> None:
    lumia.utils.next()
    lumia.utils.stop("no")


@pytest.mark.parametrize(
    "act, mark, match",
    [
        (twice, lumia.pipe.on, "called next() twice"),
        (next_after_stop, lumia.pipe.on, "called next() after stop('no')"),
        (stop_after_next, lumia.pipe.on, "called stop() after next()"),
        (lumia.utils.next, lumia.event.consumer, "next() belongs to pipelines"),
        (lumia.utils.next, lumia.event.interceptor, "next() belongs to pipelines"),
        (lumia.utils.next, lumia.event.chain, "changes the content by returning a Box"),
        (lambda: lumia.utils.stop("no"), lumia.event.consumer, "only a pipeline can be stopped"),
        (lumia.utils.intercept, lumia.event.consumer, "only an interceptor can block"),
        (lumia.utils.intercept, lumia.event.chain, "only an interceptor can block"),
        (lumia.utils.intercept, lumia.pipe.on, "only an interceptor can block"),
        (lambda: lumia.utils.next("bare"), lumia.pipe.on, "takes a Box, got a bare str"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_is_named_with_its_handler(act: Callable[[], Any], mark: Any, match: str) -> None:
    result, _ = run(act, mark)
    failed = next(step for step in result.steps if step.outcome == "failed")
    assert match in failed.reason and "test.acts" in failed.reason
    assert [step.handler for step in result.steps].count("test.acts") == 1


@pytest.mark.parametrize("delay", [-0.1, float("nan"), float("inf"), 60.01, True, "1", None])
def test_a_delay_is_seconds_up_to_a_minute(delay: Any) -> None:
    result, seen = run(lambda: lumia.utils.next(delay=delay))
    assert (result.outcome, len(result.steps), seen) == ("failed", 1, None)
    assert "next() in test.acts" in result.reason and "60" in result.reason


def test_the_next_handler_begins_when_its_delay_is_over() -> None:
    @lumia.pipe.on("it", priv=1)
    def puts_off(content: lumia.Box[Any]) -> None:
        lumia.utils.next(delay=60)

    @lumia.pipe.on("it")
    def follows(content: lumia.Box[Any]) -> None:
        pass

    with Bot(puts_off, follows, clock=ManualClock()) as bot:
        result = bot.start("it", 1)
        bot.settle(59)
        assert bot.transport.run(result.run_id).state == "delayed"  # type: ignore[union-attr]
        bot.settle(1)
        assert bot.transport.run(result.run_id).outcome == "done"  # type: ignore[union-attr]


def test_a_delay_before_no_further_handler_is_none() -> None:
    @lumia.pipe.on("it")
    def alone(content: lumia.Box[Any]) -> None:
        lumia.utils.next(delay=60)

    with Bot(alone) as bot:
        assert bot.start("it", 1).outcome == "done"


def test_a_run_with_a_live_resource_makes_no_pause(tmp_path: Path) -> None:
    def opens() -> None:
        file = (tmp_path / "file").open("w")
        lumia.pipe.start("inline", lumia.Box.any({"file": file}))

    @lumia.pipe.on("inline")
    def inline(content: lumia.Box[Any]) -> None:
        lumia.utils.next(delay=1)

    @lumia.pipe.on("it")
    def starts(content: lumia.Box[Any]) -> None:
        opens()

    with Bot(starts, inline) as bot:
        bot.start("it", 1)
        (letter,) = bot.dead
    assert "live resource" in letter.error and "leave out delay" in letter.error


def test_a_handler_that_catches_the_error_of_a_second_next_has_called_the_first() -> None:
    def careful() -> None:
        lumia.utils.next(lumia.Box.any("kept"))
        with pytest.raises(FlowError):
            lumia.utils.next(lumia.Box.any("lost"))

    result, seen = run(careful)
    assert (result.outcome, seen) == ("done", "kept")


@pytest.mark.parametrize("call", [lumia.utils.next, lumia.utils.intercept, lambda: lumia.utils.stop("no")])
def test_outside_of_handlers_they_mean_nothing(call: Callable[[], None]) -> None:
    with pytest.raises(FlowError, match="works only while a handler runs"):
        call()
