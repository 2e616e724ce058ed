"""Texts for tests: vectors made of their words, so that texts which share words are alike."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handlers.memory_graph import facts, writing
from handlers.memory_graph.database import Database
from handlers.memory_graph.types import Calibration, Embedded, Fact, Observed, Origin, Scope
from handlers.memory_graph.writing import Observation, Written

MODEL, DIMENSION = "words", 32
NOW = 1_700_000_000.0
DAY = 86400.0
CALIBRATION = Calibration(0.0, 0.1)
HERE, ELSEWHERE, BOT = Scope("bot", "qq:1:group:a"), Scope("bot", "qq:1:group:b"), Scope("bot")


def vector(text: str, dimension: int = DIMENSION) -> Embedded:
    """Return a unit vector, the mean of a random one for each word."""
    words = text.casefold().split() or [""]
    rows = [np.random.default_rng(_seed(word)).normal(size=dimension) for word in words]
    mean = np.mean(rows, axis=0)
    found: Embedded = (mean / np.linalg.norm(mean)).astype(np.float32)
    return found


def _seed(word: str) -> int:
    return int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:4], "big")


@dataclass(frozen=True)
class Words:
    """An embedder for tests."""

    model: str = MODEL
    dimension: int = DIMENSION
    calibration: Calibration = CALIBRATION

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vector(text, self.dimension) for text in texts])

    def query(self, text: str) -> Embedded:
        return vector(text, self.dimension)


def observation(
    text: str,
    number: int = 0,
    *,
    scope: Scope = HERE,
    topics: Sequence[tuple[str, float]] = (),
    run: str = "",
    **message: Any,
) -> Observation:
    """Return a message of Ann's with number `number`, written by a run of its own."""
    said = {"sender": "ann", "sender_name": "Ann", "message_id": f"m{number}", **message}
    origin = Origin(run or f"run-{scope.chat}-{said['message_id']}-{number}")
    return Observation(scope, Observed(text, **said), vector(text), origin, Counter(text.split()), topics)


def say(database: Database, text: str, number: int = 0, *, now: float = NOW, **more: Any) -> Written:
    """Write one message."""
    with database.transaction() as connection:
        one = observation(text, number, **more)
        return writing.observe(connection, one, embedder=database.embedder_id, now=now)


def learn(
    database: Database, topic: str, text: str, number: int = 0, *, scope: Scope = HERE, now: float = NOW,
    learned_in: str = "", **more: Any,
) -> Written:  # fmt: skip
    """Write one fact."""
    with database.transaction() as connection:
        return facts.write_fact(
            connection, scope, Fact(topic, text), vector(text), origin=Origin(f"fact-{number}", learned_in=learned_in),
            embedder=database.embedder_id, calibration=CALIBRATION, now=now, terms=Counter(text.casefold().split()),
            **more,
        )  # fmt: skip


def rows(database: Database, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query in the memory's schema."""
    with database.transaction() as connection:
        return connection.execute(query.encode(), values).fetchall()


def one(database: Database, query: str, *values: Any) -> Any:
    """Return the one value of a query."""
    return rows(database, query, *values)[0][0]
