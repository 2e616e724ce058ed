"""Runs whose sends are held."""

from __future__ import annotations

from typing import Any

import pytest

from lumia.held import HANDLER, PLAN, is_send, plan_of
from lumia.routes import Plan


@pytest.mark.parametrize(
    "id, send",
    [("msg.send, dest=1.console.group-7", True), ("msg.send", True), ("msg.sender", False), ("msg", False)],
)
def test_a_send_is_known_by_its_id(id: str, send: bool) -> None:
    assert is_send(id) is send


@pytest.mark.parametrize("hold, expected", [(True, PLAN), (False, Plan.of([]))])
def test_only_held_sends_get_the_plan_that_ends_them(hold: bool, expected: Any) -> None:
    assert plan_of(Plan.of([]), "msg.send", hold=hold) is expected or not hold
    assert plan_of(Plan.of([]), "msg", hold=hold).steps == ()
    assert [step.handler for step in PLAN.steps] == [HANDLER]
