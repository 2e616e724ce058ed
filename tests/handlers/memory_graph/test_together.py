"""Group commit: what threads write at the same moment is one batch, and nobody's outcome depends on another's."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from handlers.memory_graph import together, writing
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from handlers.memory_graph.types import Scope
from handlers.memory_graph.writing import Observation, Written
from tests.handlers.memory_graph.samples import NOW, observation, one, rows
from tests.handlers.memory_graph.test_concurrency import assert_consistent
from tests.support.wait import until

THREADS = 8


class Slow:
    """Writes that wait until they may end; batches: what was written together. A negative number can't be written."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_end = threading.Event()

    def __call__(self, items: Sequence[int]) -> list[str]:
        self.batches.append(list(items))
        assert self.may_end.wait(30)
        if min(items) < 0:
            raise ValueError(f"{min(items)} is negative")
        return [f"wrote {item}" for item in items]


def written(group: together.Group[int, str], slow: Slow, items: Sequence[int]) -> list[str]:
    """Return what became of each item; the first one is being written when the others come."""

    def attempt(item: int) -> str:
        try:
            return group.write(item)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(items)) as pool:
        first = pool.submit(attempt, items[0])
        until(lambda: len(slow.batches) == 1, timeout=30, what="the first is being written")
        later = [pool.submit(attempt, item) for item in items[1:]]
        until(lambda: len(group._queue) == len(later), timeout=30, what="the others wait")
        slow.may_end.set()
        return [one.result(30) for one in (first, *later)]


def test_what_waits_is_written_together_and_everybody_gets_their_own_outcome() -> None:
    slow = Slow()
    items = list(range(10, 10 + THREADS))
    assert written(together.Group(slow), slow, items) == [f"wrote {item}" for item in items]
    assert list(map(len, slow.batches)) == [1, THREADS - 1]
    assert sorted(item for batch in slow.batches for item in batch) == items


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (1, 3, *[2] * 20):
        monkeypatch.setattr(together, "MOST", most)
        slow = Slow()
        found = written(together.Group(slow), slow, range(THREADS))
        assert found == [f"wrote {item}" for item in range(THREADS)]
        assert max(map(len, slow.batches)) == most


def test_what_cannot_be_written_keeps_nobody_else_from_it() -> None:
    slow = Slow()
    items = [1, 2, 3, -4, 5, 6]
    expected = ["wrote 1", "wrote 2", "wrote 3", "-4 is negative", "wrote 5", "wrote 6"]
    assert written(together.Group(slow), slow, items) == expected
    assert [len(batch) for batch in slow.batches] == [1, 5, 1, 1, 1, 1, 1]  # those of the batch again, each alone


def test_who_writes_alone_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "PATIENCE_SECONDS", 3600.0)
    slow = Slow()
    slow.may_end.set()
    group = together.Group(slow)
    assert [group.write(item) for item in range(3)] == ["wrote 0", "wrote 1", "wrote 2"]


def test_those_written_with_the_last_batch_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "PATIENCE_SECONDS", 30.0)
    slow = Slow()
    group = together.Group(slow)
    written(group, slow, [1, 2, 3])
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(group.write, [4, 5])) == ["wrote 4", "wrote 5"]
    assert sorted(slow.batches[-1]) == [4, 5]


@pytest.mark.services
def test_messages_of_eight_threads_are_stored_once_each_but_for_the_one_with_a_bad_vector(database: Database) -> None:
    batches: list[int] = []

    def write(given: Sequence[Observation]) -> list[Written]:
        batches.append(len(given))
        with database.transaction() as connection:
            return writing.observe_many(connection, given, embedder=database.embedder_id, now=NOW)

    group = together.Group(write)
    given = [
        observation(
            f"text {number}", number, scope=Scope("bot", f"chat {number % 5}"), topics=[(f"t{number % 7}", 1.0)]
        )
        for number in range(60)
    ]
    given[33] = replace(given[33], vector=np.full(len(given[33].vector), np.nan, np.float32))

    def attempt(said: Observation) -> str:
        try:
            return group.write(said).id
        except EmbedderError:
            return ""

    with ThreadPoolExecutor(THREADS) as pool:
        ids = list(pool.map(attempt, given))
    again = [group.write(said).id for said in given[:10]]
    assert [at for at, id in enumerate(ids) if not id] == [33]
    assert again == ids[:10]
    assert len(batches) < 60 + 10
    assert {id for (id,) in rows(database, "SELECT id FROM memory_instances")} == set(ids) - {""}
    assert one(database, "SELECT count(*) FROM memory_writes") == 59
    assert_consistent(database)
