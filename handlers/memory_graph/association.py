"""What the best candidates say for the others: spreading activation that starts from memories instead of the query.

It goes two ways: through the topics two memories share, and from vector to vector. One statement fetches the vectors
and mentions of those considered, the rest is arithmetic (`ranking.Links`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import lookup
from .candidates import Found
from .ranking import Links

if TYPE_CHECKING:
    import psycopg

_HUB = 1000
"""A topic with more mentions, or with more than a twentieth of the scope's, says nothing for those that share it."""
_FETCH = """
WITH linking AS MATERIALIZED (
    SELECT t.id, t.mentions, row_number() OVER () AS ordinal FROM memory_topics t
    WHERE t.id IN (SELECT m.topic_id FROM memory_instances i JOIN memory_mentions m ON m.instance_id = i.id
        WHERE i.number = ANY(%(seeds)s::int8[])) AND t.mentions BETWEEN 2 AND %(hub)s),
shown AS MATERIALIZED (SELECT number, id, content_embedding FROM memory_instances
    WHERE number = ANY(%(considered)s::int8[]))
SELECT (SELECT string_agg(int8send(number) || vector_send(content_embedding), ''::bytea) FROM shown),
    (SELECT string_agg(int8send(s.number) || int8send(l.ordinal) || float8send(l.mentions) || float4send(m.weight),
        ''::bytea)
     FROM shown s JOIN memory_mentions m ON m.instance_id = s.id JOIN linking l ON l.id = m.topic_id)
"""
_MENTION = np.dtype([("number", ">i8"), ("topic", ">i8"), ("mentions", ">f8"), ("weight", ">f4")])


def associate(
    connection: psycopg.Connection[Any],
    found: Found,
    considered: Sequence[int],
    seeds: Sequence[int],
    shares: NDArray[np.float64],
) -> Links:
    """Return what the best candidates say for those `considered`.

    considered, seeds: positions among the candidates, the seeds best first. shares: of the activation, one per seed,
    adding up to 1. Inside the transaction in which `found` was found; raises what the database raises.
    """
    count, whole = len(found.numbers), max(2.0, found.place.instances)
    values = {
        "seeds": lookup.array(found.numbers[list(seeds)].tolist()),
        "considered": lookup.array(found.numbers[sorted({*considered, *seeds})].tolist()),
        "hub": int(min(_HUB, max(3.0, 0.05 * whole))),
    }
    row = connection.execute(_FETCH, values, prepare=True, binary=True).fetchone()
    assert row is not None
    dimension = len(found.whitening.mean)
    kind = np.dtype([("number", ">i8"), ("head", ">i4"), ("vector", ">f4", (dimension,))])
    vectors, mentions = np.frombuffer(row[0] or b"", kind), np.frombuffer(row[1] or b"", _MENTION)
    resembling, associated = np.zeros((len(seeds), count)), np.zeros((len(seeds), count))
    order = np.argsort(found.numbers)
    place = order[np.searchsorted(found.numbers, vectors["number"], sorter=order)]
    row_of = np.full(count, -1, np.intp)
    row_of[place] = np.arange(len(place))
    present = [at for at, seed in enumerate(seeds) if row_of[seed] >= 0]  # one may have been forgotten meanwhile
    if not present:
        return Links(tuple(seeds), resembling, associated)
    known = np.asarray(vectors["vector"], np.float32)
    alike = found.whitening.between(known[row_of[[seeds[at] for at in present]]], known)
    resembling[np.asarray(present)[:, None], place[None, :]] = alike * shares[present][:, None]
    associated[:, place] = _shared(mentions, vectors["number"], found.numbers[list(seeds)], shares, whole)
    for at, seed in enumerate(seeds):
        resembling[at, seed] = associated[at, seed] = 0.0
    return Links(
        tuple(seeds),
        np.clip(np.cumsum(resembling, axis=0), -2.0, 6.0),
        np.log1p(np.cumsum(np.maximum(0.0, associated), axis=0)),
    )


def _shared(
    mentions: Any, numbers: NDArray[np.int64], seeds: NDArray[np.int64], shares: NDArray[np.float64], whole: float
) -> NDArray[np.float64]:
    """Return the activation that goes from each seed to each instance through topics that both mention."""
    if not len(mentions):
        return np.zeros((len(seeds), len(numbers)))
    order = np.argsort(numbers)
    at = order[np.searchsorted(numbers, mentions["number"], sorter=order)]
    topics = int(mentions["topic"].max())
    weights = np.zeros((len(numbers), topics))
    weights[at, mentions["topic"] - 1] = mentions["weight"]
    rare = np.zeros(topics)
    rare[mentions["topic"] - 1] = np.log(whole / mentions["mentions"])
    there = order[np.minimum(np.searchsorted(numbers, seeds, sorter=order), len(numbers) - 1)]
    sent = np.where((numbers[there] == seeds)[:, None], weights[there] * rare * shares[:, None], 0.0)
    found: NDArray[np.float64] = sent @ weights.T
    return found
