"""What of a scope may answer a query, found in the database in three statements; ranking.py orders it.

1. lookup.py: the scopes a reader may see, the people named, where the query's terms stand.
2. activation.py: what spreads from the query's topics.
3. `_GATHER`: the nearest instances and those with the best BM25 score, with their neighbours in the conversation.

The last two are sent together, over two connections when a second one is lent, and words are scored while the server
works. Statements are planned once per connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import activation, lookup, whitening
from .activation import Activated, Activation
from .packing import AROUND, PACKED, Unpacked
from .ranking import Candidates, Parts, Query
from .types import Embedded, Scope

if TYPE_CHECKING:
    import psycopg

NEAREST = 64
"""Instances taken from each of the two indexes, the vectors and the words."""
_EXACT, _EXACT_SHARE, _EXACT_MOST = 8_000, 0.1, 50_000
"""Scopes up to this size, or up to this share of the table, are compared one by one: exact, and quicker than an
index that must skip what belongs to others."""
_SCAN = 100
"""Rows taken from the vector index, which knows nothing of whitening: the nearest by the plain query, of which the
nearest by the whitened one are kept."""
_WIDE = f"SET LOCAL hnsw.ef_search = {_SCAN + 40}"
_GATHER = f"""
WITH near AS MATERIALIZED (
    SELECT scope_id, seq FROM (
        SELECT number, scope_id, seq, content_embedding FROM memory_instances
        WHERE scope_id = ANY(%(scopes)s::int[]) ORDER BY {{order}} LIMIT {{scan}}) AS scanned
    ORDER BY content_embedding <=> %(whitened)b, number LIMIT {{limit}}),
pool AS MATERIALIZED (
    SELECT scope_id, seq FROM near
    UNION SELECT scope_id, seq FROM memory_instances WHERE number = ANY(%(numbers)s::int8[]))
SELECT {PACKED} FROM {AROUND}
"""


@dataclass(frozen=True)
class Found:
    """What a query found. numbers: of the candidates' rows (`memory_instances.number`), rising, as the candidates are
    given."""

    candidates: Candidates
    query: Query
    numbers: NDArray[np.int64]
    topics: tuple[Activated, ...]
    place: lookup.Place
    whitening: whitening.Whitening


def find(
    connection: psycopg.Connection[Any],
    scope: Scope,
    query: str,
    vector: Embedded,
    *,
    sender: str | None = None,
    people: Mapping[str, str] | None = None,
    parts: Parts | None = None,
    now: float,
    nearest: int = NEAREST,
    beside: psycopg.Connection[Any] | None = None,
) -> Found | None:
    """Return what of the visible scopes may answer `query`, None when there are none.

    vector: of the query, of length 1. sender: id of who asks. people: more names of people, name → id. beside: a second
    connection, on which topics are looked for meanwhile (`Database.beside`). Inside the caller's transaction on a
    connection of `Database`; raises what the database raises.
    """
    parts = parts or Parts()
    place = lookup.look(connection, scope, query, people or {})
    if not place.scopes:
        return None
    counts = [(number, place.scopes[number][0]) for number in sorted(place.scopes)]
    usual = whitening.of_scopes(connection, place.identity, counts, len(vector))
    direction = usual.of(vector)
    exact = _exact(place)
    values: dict[str, Any] = {
        "scopes": lookup.array(sorted(place.scopes)),
        "whitened": direction.vector,
        "plain": vector,
        "now": now,
        "named": list(place.people),
        "asker": sender or "",
    }
    spread: psycopg.Cursor[Any] | None = None
    with connection.pipeline(), beside.pipeline() if beside else nullcontext():
        if parts.spreading:
            asked = values | activation.values(query, place)
            if beside:
                beside.execute(lookup.PLANNED)  # all until the pipeline's end is one transaction
            spread = (beside or connection).execute(activation.statement(exact), asked, prepare=True, binary=True)
        words = place.words()
        values["numbers"] = lookup.array(words.best(nearest) if parts.lexical else [])
        if not exact:
            connection.execute(_WIDE)
        gathered = connection.execute(_gather(exact, nearest if parts.dense else 0), values, prepare=True, binary=True)
    reached = activation.activation(spread.fetchone(), place.names(scope)) if spread else Activation()
    row = gathered.fetchone()
    assert row is not None
    unpacked = Unpacked(row[0], reached.packed)
    found = _candidates(unpacked, direction, place, words if parts.lexical else None, reached, now)
    asked_for = Query(place.idf, place.typical_length)
    return Found(found, asked_for, unpacked.number, reached.topics, place, usual)


@lru_cache(16)
def _gather(exact: bool, limit: int) -> str:
    """Return the SQL; `exact` compares all instances of the scopes instead of asking the vector index for those near
    to the plain query."""
    order = "(content_embedding <=> %(whitened)b) + 0" if exact else "content_embedding <=> %(plain)b"
    scan = limit if exact or not limit else max(_SCAN, limit)
    return " ".join(_GATHER.format(order=order, scan=scan, limit=limit).split())


def _exact(place: lookup.Place) -> bool:
    rows = max(place.rows, place.instances)
    return place.instances <= max(_EXACT, min(_EXACT_MOST, _EXACT_SHARE * rows))


def _candidates(
    found: Unpacked, direction: whitening.Direction, place: lookup.Place, words: lookup.Words | None,
    reached: Activation, now: float,
) -> Candidates:  # fmt: skip
    count = len(found.number)
    score, mask = words.of(found.number) if words else (np.zeros(count), np.zeros(count, np.int64))
    return Candidates(
        scope=found.scope,
        seq=found.seq,
        time=found.time,
        deviations=direction.deviations(found.cosine),
        lexical=score,
        matched=mask,
        length=found.length,
        question=found.question,
        named=found.named / max(1, len(place.people)),
        asker=found.asker,
        spread=reached.of(found.number),
        importance=found.importance,
        strength=found.strength(now),
    )
