"""Recall: what the memory holds about a query, best first, each with the reasons (spec §11.3, extended by issue 4).

Nothing is written: whoever puts a result into a prompt strengthens it (`strengthening`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import candidates, reading
from .ranking import Parts, Ranked, rank, seeds_of, spread
from .types import Embedded, Reason, Recalled, Scope, ScoredInstance, ScoredTopic

if TYPE_CHECKING:
    import psycopg

TOP_K = 10
CONSIDERED = 150
"""Of the best candidates this many may be lifted by the very best."""
_REASON_OF = {"dense": "seed", "spreading": "spread"}
_WORTH_SAYING = 0.05


def recall(
    connection: psycopg.Connection[Any],
    scope: Scope,
    query: str,
    vector: Embedded,
    *,
    sender: str | None = None,
    people: Mapping[str, str] | None = None,
    top_k: int = TOP_K,
    parts: Parts | None = None,
    now: float,
) -> Recalled:
    """Return at most `top_k` instances and topics that a reader in `scope` may see, best first.

    vector: the query's, shape (d,), of length 1. sender: id of who asks, a small advantage for what they said
    themselves. people: more names of people than the memory knows, name → id. now: seconds since 1970, for decay.
    Inside the caller's transaction; raises what the database raises.
    """
    found = candidates.find(connection, scope, query, vector, sender=sender, people=people, parts=parts, now=now)
    if found is None or top_k < 1:
        return Recalled()
    ranked = rank(found.candidates, found.query, parts)
    if (parts or Parts()).spreading:
        seeds, shares = seeds_of(ranked)
        links = (
            candidates.associate(connection, found, ranked.order[:CONSIDERED].tolist(), seeds, shares)
            if seeds
            else None
        )
        if links is not None:
            ranked = spread(ranked, found.candidates, links.resembling, links.associated)
    best = ranked.order[:top_k]
    ids = _ids(connection, scope, [found.numbers[at] for at in best])
    known = {one.id: one for one in reading.instances(connection, scope, list(ids.values()))}
    instances = []
    for at in best:
        instance = known.get(ids.get(found.numbers[at], ""))
        if instance is not None:
            instances.append(ScoredInstance(instance, float(ranked.scores[at]), _reasons(found, ranked, int(at))))
    return Recalled(_topics(connection, scope, found.topics, top_k, now), tuple(instances))


def _ids(connection: psycopg.Connection[Any], scope: Scope, numbers: Sequence[int]) -> dict[int, str]:
    rows = connection.execute("SELECT number, id FROM memory_instances WHERE number = ANY(%s)", (list(numbers),))
    return dict(rows.fetchall())


def _reasons(found: candidates.Found, ranked: Ranked, at: int) -> tuple[Reason, ...]:
    said = []
    for part, shares in ranked.shares.items():
        share = float(shares[at])
        if abs(share) >= _WORTH_SAYING:
            said.append(Reason(_REASON_OF.get(part, part), round(share, 4), _detail(found, part, at)))
    return tuple(sorted(said, key=lambda one: -one.score))


def _detail(found: candidates.Found, part: str, at: int) -> str:
    if part == "lexical":
        mask = int(found.candidates.matched[at])
        return ", ".join(term for bit, term in enumerate(found.terms) if mask >> bit & 1)
    if part == "speaker":
        return ", ".join(found.people)
    return ""


def _topics(
    connection: psycopg.Connection[Any], scope: Scope, reached: Sequence[candidates.Activated], top_k: int, now: float
) -> tuple[ScoredTopic, ...]:
    best = sorted(reached, key=lambda one: (-one.score * (0.5 + 0.5 * one.strength), one.id))[:top_k]
    known = {one.id: one for one in reading.topics(connection, scope, [one.id for one in best], now=now)}
    return tuple(
        ScoredTopic(
            known[one.id],
            float(np.round(one.score * (0.5 + 0.5 * one.strength), 6)),
            (
                Reason(
                    "spread" if one.depth else "seed", round(one.score, 4), f"from {one.source}" if one.depth else ""
                ),
            ),
        )
        for one in best
        if one.id in known
    )
