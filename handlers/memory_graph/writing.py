"""Writing: what was said, what was learned, and what was used. Every write is made once per (run, step, ordinal).

All functions work inside the caller's transaction (`Database.transaction`). Times are seconds since 1970. `terms` counts
the lexical terms of the text, `topics` names what it is about with weights in [0, 1], the first being the main one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .types import Calibration, Embedded, Fact, Observed, Origin, Scope

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True)
class Observation:
    """One message to write. topic_vectors: of topic names, by name; a new topic without one gets the message's."""

    scope: Scope
    message: Observed
    vector: Embedded
    origin: Origin
    terms: Mapping[str, int] = field(default_factory=dict)
    topics: Sequence[tuple[str, float]] = ()
    topic_vectors: Mapping[str, Embedded] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """What became of a write. id: the instance. outcome: new, merged (the same fact was there), known or repeated."""

    id: str
    outcome: str


def observe(
    connection: psycopg.Connection[Any], observation: Observation, *, embedder: int, now: float
) -> Written:  # fmt: skip
    """Write one message; see `observe_many`."""
    return observe_many(connection, [observation], embedder=embedder, now=now)[0]


def observe_many(
    connection: psycopg.Connection[Any], observations: Sequence[Observation], *, embedder: int, now: float
) -> list[Written]:
    """Write messages in their order, of any scopes, each once; returns what became of each.

    embedder: `Database.embedder_id`.
    """
    raise NotImplementedError


def write_fact(
    connection: psycopg.Connection[Any],
    scope: Scope,
    fact: Fact,
    vector: Embedded,
    *,
    origin: Origin,
    embedder: int,
    calibration: Calibration,
    now: float,
    terms: Mapping[str, int] | None = None,
    topics: Sequence[tuple[str, float]] = (),
    topic_vectors: Mapping[str, Embedded] | None = None,
) -> Written:
    """Write what was learned about `fact.topic`, unless the scope knows it already: then what is there counts anew."""
    raise NotImplementedError


def strengthen(
    connection: psycopg.Connection[Any],
    scope: Scope,
    topics: Sequence[str],
    instances: Sequence[str] = (),
    *,
    origin: Origin,
    now: float,
) -> int:
    """Note that these topics and instances (ids) were used in a prompt; each at most once per run. Returns how many."""
    raise NotImplementedError
