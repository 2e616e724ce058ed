"""Turns: quick steps one thread at a time, slow ones side by side."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from lumia.executor import StepListener
from tasks.pool import TaskPool
from tasks.turns import SLOW_SECONDS, Turns
from tests.support.wait import until


@dataclass
class Step:
    handler: str


def started(listener: StepListener, handler: str) -> None:
    listener.started(None, Step(handler))  # type: ignore[arg-type]


def ended(listener: StepListener, handler: str, seconds: float) -> None:
    listener.ended(None, Step(handler), "done", "", seconds)  # type: ignore[arg-type]


class Heard(StepListener):
    def __init__(self) -> None:
        self.steps: list[str] = []

    def started(self, claim: Any, step: Any) -> None:
        self.steps.append(f"+{step.handler}")

    def ended(self, claim: Any, step: Any, outcome: str, error: str, seconds: float) -> None:
        self.steps.append(f"-{step.handler}")


def test_a_second_thread_waits_while_the_turn_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.turns.PAUSE_SECONDS", 30.0)  # however slow this machine is
    monkeypatch.setattr("tasks.turns.LONGEST_SECONDS", 60.0)
    turns, entered = Turns(), threading.Event()

    def second() -> None:
        with turns.share():
            entered.set()

    with turns.share() as first:
        thread = threading.Thread(target=second)
        thread.start()
        until(lambda: turns.awaited)
        started(first, "quick.one")
        assert not entered.is_set()
    thread.join(5)
    assert entered.is_set() and not turns.awaited


def test_nobody_waits_long_for_a_turn_that_does_not_move() -> None:
    turns = Turns()
    with turns.share() as first:
        started(first, "model.call")  # the first time nobody knows that it takes long
        assert turns.take() is False


def test_a_handler_known_to_be_slow_is_executed_without_the_turn() -> None:
    turns = Turns()
    turns.learn("model.call", 2.0)
    with turns.share() as first:
        started(first, "model.call")
        assert turns.take() is True
        turns.leave()
        ended(first, "model.call", 2.0)
        started(first, "quick.one")
        until(lambda: not turns.take())


def test_a_handler_that_became_quick_takes_its_turn_again() -> None:
    turns = Turns()
    turns.learn("model.call", 2.0)
    for _ in range(40):
        turns.learn("model.call", 0.0001)
    assert not turns.is_slow("model.call")
    turns.learn("model.call", 10 * SLOW_SECONDS)
    assert turns.is_slow("model.call")


def test_the_turn_is_given_back_at_the_end_of_a_message_and_steps_are_passed_on() -> None:
    turns, heard = Turns(), Heard()
    with turns.share() as share:
        listener = share.over(heard)
        started(listener, "a.b")
        ended(listener, "a.b", 0.0)
    assert heard.steps == ["+a.b", "-a.b"]
    assert turns.take() is True


def test_a_batch_ends_when_a_message_has_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.turns.PAUSE_SECONDS", 30.0)
    monkeypatch.setattr("tasks.turns.LONGEST_SECONDS", 60.0)
    turns, freed = Turns(), threading.Event()
    turns.freed = freed.set
    with turns.share() as first:
        assert first.goes_on()
        thread = threading.Thread(target=turns.take)
        thread.start()
        until(lambda: not first.goes_on())
        assert not freed.is_set()
    thread.join(5)
    assert freed.is_set()


def test_no_message_is_taken_that_would_only_wait_for_its_turn() -> None:
    turns, pool = Turns(), TaskPool(4)
    pool.has_room = lambda: not turns.awaited
    assert pool.num_processes == 4
    with turns._front:
        assert pool.num_processes == 0
    assert pool.num_processes == 4
    pool.stop()
