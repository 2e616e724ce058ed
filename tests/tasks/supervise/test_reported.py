"""What the worker reports about its plugins reaches the operator, and nothing else about that key does harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.keys import FAILURES, PREFIX
from tasks.supervise.notes import notes
from tasks.supervise.reported import as_lines, reported
from tasks.supervise.resp import connect
from tasks.supervise.state import UpState
from tests.support import servers

FAILURE = "plugin tea (on_load, plugins/tea/plugin.py:3): ValueError: no water"


@pytest.mark.services
def test_reported_failures_are_read_and_anything_else_is_none(tmp_path: Path) -> None:
    with servers.valkey(tmp_path) as server, connect(server.url) as redis:
        assert reported(server.url) == []
        redis.ask("SET", PREFIX + FAILURES, json.dumps([FAILURE, 3]))
        assert reported(server.url) == [FAILURE]
        for other in ("{", "{}", '"text"', "null"):
            redis.ask("SET", PREFIX + FAILURES, other)
            assert reported(server.url) == []


def test_a_server_that_does_not_answer_has_reported_nothing() -> None:
    assert reported("redis://127.0.0.1:1/0") == reported("") == []


@pytest.mark.services
def test_the_announcement_of_up_shows_them(tmp_path: Path, bot_root: Path) -> None:
    with servers.valkey(tmp_path) as server:
        with connect(server.url) as redis:
            redis.ask("SET", PREFIX + FAILURES, json.dumps([FAILURE]))
        base = Path(__file__).resolve().parents[3]
        assert f"! {FAILURE}" in notes(base, bot_root, UpState(1, 1.0, redis_url=server.url))


def test_every_failure_is_one_line() -> None:
    assert as_lines([FAILURE, "tea:\n  no water"]) == [f"! {FAILURE}", "! plugin tea: no water"]
