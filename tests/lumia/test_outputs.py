"""What a step gave, as digests that stay the same whenever and wherever it gives the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lumia import Box
from lumia.outputs import box_digest, outputs, start_digest, write_digest
from lumia.ports import RunRequest, StoreOp
from lumia.routes import Plan

REQUEST = RunRequest("r1", "event", "msg.send", Plan.of([]), '{"j":1}', key="lane", cause="r0/1")
WRITE = StoreOp("set", "p//k", "1", ttl=5.0)


def test_a_step_that_gave_nothing_pays_nothing() -> None:
    assert outputs(None, (), ()) == {}


def test_digests_stand_in_order() -> None:
    gave = outputs('{"j":1}', [REQUEST], [WRITE])["gave"]
    assert gave == {
        "box": box_digest('{"j":1}'),
        "store": [write_digest(WRITE)],
        "starts": [start_digest(REQUEST)],
    }
    assert all(len(one) == 12 for one in (gave["box"], *gave["store"], *gave["starts"]))


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"},
        {"key": "x"},
        {"box": '{"j":2}'},
        {"delay": 1.0},
        {"dedup": "x"},
        {"attached": False},
        {"flow": "pipe"},
    ],
)
def test_another_start_has_another_digest(change: dict[str, Any]) -> None:
    assert start_digest(replace(REQUEST, **change)) != start_digest(REQUEST)


@pytest.mark.parametrize("change", [{"run_id": "r2"}, {"cause": "r9/9"}, {"priority": 9}, {"root_id": "r9"}])
def test_ids_and_circumstances_are_no_part_of_it(change: dict[str, Any]) -> None:
    assert start_digest(replace(REQUEST, **change)) == start_digest(REQUEST)


def test_dill_content_counts_by_its_type_and_meta() -> None:
    def wire(value: object, mood: str = "") -> str:
        return Box.any(value, meta={"mood": mood}).dump(b"secret")

    assert wire({1, 2}).startswith('{"d":')
    assert box_digest(wire({1, 2})) == box_digest(wire({3}))
    assert box_digest(wire({1, 2})) != box_digest(wire({1, 2}, "bad"))
