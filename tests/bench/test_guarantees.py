"""docs/guarantees.md claims nothing without naming the test or the fault that shows it, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.chaos.faults import KINDS
from lumia.paths import base

GUARANTEES = (base() / "docs" / "guarantees.md").read_text("utf-8")
CHAOS = (base() / "docs" / "chaos.md").read_text("utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", GUARANTEES)))
FAULT = re.compile(
    r"`((?:kill|freeze|pause|restart|cut|stop|rolling|failpoint)-[a-z-]+|poison|hung|revoke|resend|lost-reply)`"
)


@pytest.mark.parametrize("file, test", TESTS, ids=[test for _, test in TESTS])
def test_every_named_test_is_there(file: str, test: str) -> None:
    path = Path(base()) / file
    assert path.is_file() and f"def {test}(" in path.read_text("utf-8")


def test_every_named_fault_is_there_and_every_fault_is_explained() -> None:
    named = set(FAULT.findall(GUARANTEES))
    assert named - set(KINDS) == set()
    explained = set(FAULT.findall(CHAOS)) | {name for name in KINDS if name.startswith("failpoint-")}
    assert set(KINDS) - explained == set()


def test_every_row_of_a_promise_says_what_shows_it() -> None:
    rows = [line for line in GUARANTEES.splitlines() if line.startswith("| ") and "shown by" not in line]
    shown = [row for row in rows if row.count("|") == 3 and ("`" in row.rsplit("|", 2)[1])]
    promises = ("| SIG", "| death", "| Valkey", "| a ", "| the broker", "| two ")
    promised = [row for row in rows if row.startswith(promises) and "`[" not in row]
    assert promised and set(promised) - set(shown) == set()
