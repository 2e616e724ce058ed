"""Changing the embedder: resumable, while others read and write, and both models' vectors never mix."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from handlers.memory_graph import documents, knowledge, reembed
from handlers.memory_graph.database import Database
from handlers.memory_graph.errors import EmbedderError
from tests.handlers.memory_graph.samples import DIMENSION, HERE, MODEL, NOW, Words, learn, one, rows, say, vector
from tests.support.wait import until

pytestmark = pytest.mark.services

OTHER = Words("other", 48)
TWIN = Words("twin", DIMENSION)


def opened(database: Database, embedder: Words) -> Database:
    return Database(database.url, model=embedder.model, dimension=embedder.dimension, schema=database.schema)


@pytest.fixture
def full(database: Database) -> Database:
    for number in range(10):
        say(database, f"message number {number}", number, topics=[(f"topic {number % 3}", 1.0), ("all", 0.5)])
    learn(database, "fact", "a fact of its own", 99)
    return database


def test_everything_is_embedded_anew(full: Database) -> None:
    seen = list(reembed.rebuild(full, OTHER, batch=4))
    assert seen[0].done == 0
    assert (seen[-1].done, seen[-1].total) == (16, 16)
    assert [step.done for step in seen] == sorted(step.done for step in seen)
    changed = opened(full, OTHER)
    for table, text, column in (
        ("memory_instances", "content", "content_embedding"), ("memory_topics", "topic_name", "topic_embedding"),
    ):  # fmt: skip
        for content, stored, number in rows(changed, f"SELECT {text}, {column}, embedder_id FROM {table}"):
            assert stored.to_numpy() == pytest.approx(vector(content, 48))
            assert number == changed.embedder_id
    changed.close()


def test_afterwards_the_tables_are_as_before_with_other_vectors(full: Database) -> None:
    query = ("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() "
             "AND indexdef LIKE '%%hnsw%%' ORDER BY indexname")  # fmt: skip
    before = rows(full, query)
    list(reembed.rebuild(full, OTHER))
    changed = opened(full, OTHER)
    assert rows(changed, query) == before
    left = (
        "FROM information_schema.columns WHERE table_schema = current_schema() AND column_name LIKE '%%embedding_next'"
    )
    assert one(changed, f"SELECT count(*) {left}") == 0
    assert one(changed, "SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = current_schema()") == 0
    list(reembed.rebuild(changed, Words(MODEL, DIMENSION)))
    assert say(full, "and back again", 60).outcome == "new"
    changed.close()


def test_a_change_that_was_ended_goes_on_where_it_was(full: Database) -> None:
    first = list(itertools.islice(reembed.rebuild(full, OTHER, batch=4), 3))
    assert first[-1].done == 8
    with full.transaction() as connection:
        assert reembed.progress(connection) == ("other", reembed.Progress(8, 16))
    again = next(reembed.rebuild(full, OTHER, batch=4))
    assert again.done == 8
    assert list(reembed.rebuild(full, OTHER))[-1].done == 16
    changed = opened(full, OTHER)
    changed.prepare()
    changed.close()


def test_meanwhile_the_bot_reads_and_writes_with_the_old_model(full: Database) -> None:
    change = reembed.rebuild(full, OTHER, batch=4)
    for _ in range(3):
        next(change)
    say(full, "written meanwhile", 70, topics=[("meanwhile", 1.0)])
    learn(full, "fact", "a fact of its own that says more", 100)
    list(change)
    changed = opened(full, OTHER)
    for content in ("written meanwhile", "a fact of its own that says more"):
        ((stored,),) = rows(changed, "SELECT content_embedding FROM memory_instances WHERE content = %s", content)
        assert stored.to_numpy() == pytest.approx(vector(content, 48))
    changed.close()


@pytest.mark.parametrize("embedder", [OTHER, TWIN], ids=["another dimension", "the same dimension"])
def test_a_worker_with_the_old_model_writes_nothing_afterwards(full: Database, embedder: Words) -> None:
    say(full, "before", 80)
    list(reembed.rebuild(full, embedder))
    with pytest.raises(EmbedderError, match="restart the worker"):
        say(full, "after", 81, topics=[("new topic", 1.0)])
    with pytest.raises(EmbedderError, match="configured embedder is words"):
        full.prepare()
    changed = opened(full, embedder)
    assert one(changed, "SELECT count(*) FROM memory_instances WHERE content = 'after'") == 0
    changed.close()


def test_a_worker_with_the_old_model_compares_nothing_afterwards(full: Database) -> None:
    list(reembed.rebuild(full, TWIN))
    for why in ("another embedder's now", "configured embedder is words"):
        with pytest.raises(EmbedderError, match=why), full.comparing():
            pass


def test_a_change_waits_for_a_reader_without_stopping_others(full: Database) -> None:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    with ThreadPoolExecutor(1) as pool:
        with full.transaction() as connection:
            connection.execute("SELECT count(*) FROM memory_instances")
            change = pool.submit(lambda: list(reembed.rebuild(full, OTHER)))
            until(lambda: one(full, waiting), what="the change waits for its lock")
            assert one(full, "SELECT count(*) FROM memory_instances") == 11
            assert not change.done()
        assert change.result(60)[-1].done == 16


def test_the_last_moment_of_a_change_waits_for_a_reader_too(full: Database) -> None:
    change = reembed.rebuild(full, OTHER)
    next(change)
    with full.transaction() as connection:
        connection.execute("SELECT count(*) FROM memory_instances")
        assert [next(change).done for _ in range(3)] == [11, 16, 16]
        assert one(full, "SELECT count(*) FROM memory_embedders WHERE state = 'next'") == 1
    assert list(change)[-1].done == 16
    changed = opened(full, OTHER)
    changed.prepare()
    changed.close()


def test_a_file_that_was_read_with_the_old_model_is_not_added_afterwards(full: Database, tmp_path: Path) -> None:
    class Changed(Words):
        def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
            list(reembed.rebuild(full, TWIN))
            return super().passages(texts)

    file = tmp_path / "faq.md"
    file.write_text("Bicycles can be returned.", "utf-8")
    with pytest.raises(EmbedderError, match="once more"):
        knowledge.add(full, Changed(), HERE, documents.read(file), now=NOW)
    changed = opened(full, TWIN)
    assert knowledge.add(changed, TWIN, HERE, documents.read(file), now=NOW).outcome == "new"
    changed.close()


def test_a_third_model_takes_the_place_of_an_unfinished_second(full: Database) -> None:
    list(itertools.islice(reembed.rebuild(full, OTHER, batch=4), 2))
    list(reembed.rebuild(full, TWIN))
    changed = opened(full, TWIN)
    assert rows(changed, "SELECT model, state FROM memory_embedders ORDER BY id") == [
        (MODEL, "retired"), ("twin", "active"),
    ]  # fmt: skip
    changed.close()


def test_a_change_can_be_given_up(full: Database) -> None:
    list(itertools.islice(reembed.rebuild(full, OTHER, batch=4), 2))
    with full.connect() as connection:
        reembed.abandon(connection)
        assert reembed.progress(connection) is None
    assert say(full, "goes on", 90).outcome == "new"


def test_two_changes_at_once_are_refused(full: Database) -> None:
    change = reembed.rebuild(full, OTHER, batch=4)
    next(change)
    with pytest.raises(EmbedderError, match="another process"):
        next(reembed.rebuild(full, OTHER))
    change.close()


def test_a_change_to_the_present_model_does_nothing(full: Database) -> None:
    assert list(reembed.rebuild(full, Words())) == [reembed.Progress(0, 0), reembed.Progress(0, 0)]


def test_a_model_with_too_many_dimensions_is_refused(full: Database) -> None:
    with pytest.raises(EmbedderError, match="fewer dimensions"):
        next(reembed.rebuild(full, Words("large", 3072)))
