"""How fast and how complete recall is at 100,000 instances: `python -m bench.graph_memory recall [--keep FOLDER]`.

Synthetic: texts of Zipf-distributed words in the lengths of chat messages, vectors in clusters, one scope that holds
nine tenths and ten that hold a hundredth each. The raw pgvector query of the same k is measured beside it, in the
same database with the index's usual ef_search of 40. `cpu` is what client and server worked for one recall, which other
work on the machine changes less than the time that passes.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handlers.memory_graph import texts
from handlers.memory_graph.database import Database, register
from handlers.memory_graph.recall import recall
from handlers.memory_graph.types import Calibration, Embedded, Scope
from tests.support.servers import postgres

DIMENSION = 384
TOP_K = 10
NOW = 1_750_000_000.0
_WORDS, _CLUSTERS = 30_000, 400


@dataclass(frozen=True)
class Size:
    """How much is stored, and how many queries are asked."""

    instances: int = 100_000
    topics: int = 20_000
    edges: int = 200_000
    queries: int = 200
    warm: int = 100


class _Synthetic:
    """An embedder's name and size; vectors and texts from a seeded generator."""

    model, dimension, calibration = "synthetic", DIMENSION, Calibration(0.0, 0.05)

    def __init__(self, seed: int = 7) -> None:
        self.random = np.random.default_rng(seed)
        self.centres = self._unit(self.random.normal(size=(_CLUSTERS, DIMENSION)))
        ranks = np.arange(1, _WORDS + 1)
        self.chances = (1 / ranks) / (1 / ranks).sum()

    def vectors(self, count: int) -> NDArray[np.float32]:
        """Return vectors around the centres and, as small models do, around one common direction."""
        chosen = self.centres[self.random.integers(0, _CLUSTERS, count)]
        noise = self._unit(self.random.normal(size=(count, DIMENSION)))
        return self._unit(chosen + 0.8 * noise + 2.0 * self.centres[0])

    def text(self, words: int) -> str:
        """Return that many words, most of them common."""
        return " ".join(f"w{at:x}q" for at in self.random.choice(_WORDS, words, p=self.chances))

    def passages(self, given: Any) -> NDArray[np.float32]:
        return self.vectors(len(given))

    def query(self, text: str) -> Embedded:
        found: Embedded = self.vectors(1)[0]
        return found

    @staticmethod
    def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


INDEXES = ("memory_topics_embedding", "memory_instances_embedding")


def fill(database: Database, size: Size, made: _Synthetic) -> None:
    """Copy the rows in and build the vector indexes afterwards."""
    with database.transaction():
        pass
    rows = _Rows(size, made)
    with database.connect() as connection:
        register(connection)
        connection.execute("SET statement_timeout = 0")
        connection.execute("SET maintenance_work_mem = '512MB'")
        wanted = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexname = ANY(%s)"
        definitions = [row[0] for row in connection.execute(wanted, (list(INDEXES),))]
        for name in INDEXES:
            connection.execute(f"DROP INDEX {name}")
        with connection.cursor() as cursor:
            for columns, copied in rows.tables():
                with cursor.copy(f"COPY {columns} FROM STDIN") as copy:
                    for row in copied:
                        copy.write_row(row)
        connection.execute(
            "UPDATE memory_topics t SET mentions = greatest(1, m.n) FROM "
            "(SELECT topic_id, count(*) AS n FROM memory_mentions GROUP BY 1) m WHERE m.topic_id = t.id"
        )
        for definition in definitions:
            connection.execute(definition)
        connection.execute("VACUUM ANALYZE")


class _Rows:
    """The rows of each table: scope 1 holds nine tenths of everything, ten others a hundredth each."""

    def __init__(self, size: Size, made: _Synthetic) -> None:
        small, few = size.instances // 100, size.topics // 100
        self._size, self._made = size, made
        self._counts = [size.instances - 10 * small] + [small] * 10
        self._lengths = np.clip(made.random.lognormal(2.3, 0.7, size.instances).astype(int), 1, 120)
        self._scopes = np.repeat(np.arange(1, 12), self._counts)
        self._topic_scopes = np.repeat(np.arange(1, 12), [size.topics - 10 * few] + [few] * 10)
        self._bodies: list[str] = []

    def tables(self) -> Iterator[tuple[str, Iterator[tuple[Any, ...]]]]:
        """Return each table with its columns, and its rows, in the order in which they refer to each other."""
        yield "memory_scopes (id, bot, chat, next_seq, instances, tokens)", self._of_scopes()
        yield (
            "memory_topics (id, topic_name, topic_embedding, scope_id, name_key, mentions, embedder_id, last_accessed)",
            self._of_topics(),
        )
        yield (
            (
                "memory_instances (id, topic_id, content, content_embedding, created_at, metadata, scope_id, seq,"
                " number, kind, hash, length, embedder_id)"
            ),
            self._of_instances(),
        )
        yield "memory_terms (scope_id, term, number, tf, length)", self._of_terms()
        yield "memory_people (scope_id, person, name, messages, first_seen, last_seen)", self._of_people()
        yield "memory_mentions (instance_id, topic_id, weight)", self._of_mentions()
        yield "topic_edges (id, from_topic, to_topic, weight, last_activated)", self._of_edges()

    def _of_scopes(self) -> Iterator[tuple[Any, ...]]:
        for at, count in enumerate(self._counts):
            yield at + 1, "b", f"c{at}", count, count, int(self._lengths[self._scopes == at + 1].sum())

    def _of_topics(self) -> Iterator[tuple[Any, ...]]:
        for at, vector in enumerate(self._made.vectors(self._size.topics)):
            name = f"w{at:x}q"
            yield f"t{at}", name, vector, int(self._topic_scopes[at]), name, 5, 1, "2025-06-15"

    def _of_instances(self) -> Iterator[tuple[Any, ...]]:
        vectors = self._made.vectors(self._size.instances)
        seqs = np.concatenate([np.arange(count) for count in self._counts])
        for at in range(self._size.instances):
            length = int(self._lengths[at])
            self._bodies.append(self._made.text(length))
            yield (
                f"i{at}", None, self._bodies[at], vectors[at], f"2025-01-01 00:00:00+00:{at % 60:02}",
                f'{{"sender_id": "p{at % 30}"}}', int(self._scopes[at]), int(seqs[at]), at + 1, "message", b"\\x00",
                length, 1,
            )  # fmt: skip

    def _of_terms(self) -> Iterator[tuple[Any, ...]]:
        for at, body in enumerate(self._bodies):
            for term, count in texts.terms(body).items():
                yield int(self._scopes[at]), term, at + 1, count, int(self._lengths[at])

    def _of_people(self) -> Iterator[tuple[Any, ...]]:
        for scope in range(1, 12):
            for person in range(30):
                yield scope, f"p{person}", f"Person{person}", 100, "2025-01-01", "2025-06-15"

    def _of_mentions(self) -> Iterator[tuple[Any, ...]]:
        own = {scope: np.flatnonzero(self._topic_scopes == scope) for scope in range(1, 12)}
        for at in range(self._size.instances):
            topics = own[int(self._scopes[at])]
            for topic in set((self._made.random.zipf(1.3, 2) - 1) % len(topics)):
                yield f"i{at}", f"t{topics[topic]}", 0.7

    def _of_edges(self) -> Iterator[tuple[Any, ...]]:
        chance = self._made.random
        pairs = {tuple(sorted(chance.choice(self._size.topics, 2).tolist())) for _ in range(self._size.edges)}
        for at, (a, b) in enumerate(sorted(pair for pair in pairs if pair[0] != pair[1])):
            low, high = sorted((f"t{a}", f"t{b}"))
            yield f"e{at}", low, high, float(chance.uniform(0.1, 1)), "2025-06-15"


def measure(database: Database, size: Size, made: _Synthetic) -> dict[str, Any]:
    """Return milliseconds (p50, p95) and completeness, for the large scope and one that holds a hundredth."""
    return {
        "large scope": _of_scope(database, Scope("b", "c0"), 1, size, made),
        "1 % scope": _of_scope(database, Scope("b", "c5"), 6, size, made),
    }


def _of_scope(database: Database, scope: Scope, number: int, size: Size, made: _Synthetic) -> dict[str, Any]:
    asked = [(made.text(9), made.vectors(1)[0]) for _ in range(size.queries)]
    for _ in range(size.warm):  # a new connection plans, and reads the pages of the indexes into its memory
        _recall(database, scope, made.text(9), made.vectors(1)[0])
    before = _cpu(database)
    times = [_timed(functools.partial(_recall, database, scope, text, vector)) for text, vector in asked]
    cpu = (_cpu(database) - before) / len(asked)
    raw = [_timed(functools.partial(_raw, database, number, vector, exact=False)) for _, vector in asked]
    return {
        "recall": _percentiles(times) | {"cpu": round(cpu, 2)},
        "raw pgvector": _percentiles(raw),
        "returned": min(len(_recall(database, scope, text, vector).instances) for text, vector in asked[:50]),
        "share of exact": round(float(np.mean([_overlap(database, scope, number, v) for _, v in asked[:50]])), 4),
    }


def _cpu(database: Database) -> float:
    """Return how many milliseconds this process and its session of the server have worked."""
    with database.transaction() as connection:
        usage = Path(f"/proc/{connection.info.backend_pid}/schedstat")
        served = int(usage.read_text().split()[0]) / 1e6 if usage.exists() else 0.0
    return served + time.process_time() * 1000


def _recall(database: Database, scope: Scope, text: str, vector: Embedded) -> Any:
    with database.transaction() as connection, database.beside() as beside:
        return recall(connection, scope, text, vector, sender="p3", top_k=TOP_K, now=NOW, beside=beside)


def _raw(database: Database, scope: int, vector: Embedded, *, exact: bool) -> list[int]:
    with database.transaction() as connection:
        plus = " + 0" if exact else ""
        connection.execute("SET LOCAL hnsw.ef_search = 40")
        rows = connection.execute(
            f"SELECT number FROM memory_instances WHERE scope_id = %s "
            f"ORDER BY (content_embedding <=> %s){plus} LIMIT {TOP_K}",
            (scope, vector),
        )
        return [row[0] for row in rows]


def _overlap(database: Database, scope: Scope, number: int, vector: Embedded) -> float:
    """Return which share of the exact nearest k, by the whitened query, is among the candidates."""
    from handlers.memory_graph import candidates, whitening
    from handlers.memory_graph.ranking import Parts

    with database.transaction() as connection:
        found = candidates.find(connection, scope, "", vector, parts=Parts.named("dense"), now=NOW)
        assert found is not None and found.whitening is not None
        direction: whitening.Direction = found.whitening.of(vector)
    exact = set(_raw(database, number, direction.vector, exact=True))
    return len(exact & set(found.numbers)) / len(exact)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def _percentiles(times: list[float]) -> dict[str, float]:
    return {f"p{share}": round(float(np.percentile(times, share)), 2) for share in (50, 95)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--instances", type=int, default=Size.instances)
    parser.add_argument("--queries", type=int, default=Size.queries, help="per scope")
    parser.add_argument("--quick", action="store_true", help="10,000 instances and 50 queries")
    parser.add_argument("--keep", type=Path, help="folder of the filled database, which a later run uses again")


def run(given: argparse.Namespace) -> None:
    """Fill a database, or take the one that was kept, measure and print."""
    instances, queries = (10_000, 50) if given.quick else (given.instances, given.queries)
    share = instances / Size.instances
    size = Size(instances, int(Size.topics * share), int(Size.edges * share), queries, min(Size.warm, 4 * queries))
    with tempfile.TemporaryDirectory() as folder, postgres(given.keep or Path(folder)) as server:
        made = _Synthetic()
        database = Database(
            server.url, model=made.model, dimension=DIMENSION, calibration=made.calibration,
            schema=f"bench_{instances}", limit=60.0,
        )  # fmt: skip
        try:
            if not _filled(database):
                fill(database, size, made)
            loads = " ".join(f"{one:.1f}" for one in os.getloadavg())
            print(json.dumps({"instances": instances, "load": loads, **measure(database, size, made)}, indent=1))
        finally:
            database.close()


def _filled(database: Database) -> bool:
    with database.transaction() as connection:
        return connection.execute("SELECT 1 FROM memory_scopes LIMIT 1").fetchone() is not None
