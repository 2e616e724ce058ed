"""What the best candidates say for the others: spreading activation that starts from memories instead of the query.

It goes two ways: through the topics two memories share, and from vector to vector. Two statements, sent together, fetch
the vectors and mentions of those considered, and with them what is likely to be shown; the rest is arithmetic
(`ranking.Links`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import lookup, reading
from .candidates import Found
from .ranking import Links

if TYPE_CHECKING:
    import psycopg

_HUB = 1000
"""A topic with more mentions, or with more than a twentieth of the scope's, says nothing for those that share it."""
_MENTIONS = """
WITH linking AS MATERIALIZED (
    SELECT t.id, t.mentions, row_number() OVER () AS ordinal FROM memory_topics t
    WHERE t.id IN (SELECT m.topic_id FROM memory_instances i JOIN memory_mentions m ON m.instance_id = i.id
        WHERE i.number = ANY(%(seeds)s::int8[])) AND t.mentions BETWEEN 2 AND %(hub)s)
SELECT string_agg(int8send(s.number) || int8send(l.ordinal) || float8send(l.mentions) || float4send(m.weight),
    ''::bytea)
FROM memory_instances s JOIN memory_mentions m ON m.instance_id = s.id JOIN linking l ON l.id = m.topic_id
WHERE s.number = ANY(%(considered)s::int8[])
"""
_ROWS = f"""
SELECT i.number, i.content_embedding,
    CASE WHEN i.number = ANY(%(shown)s::int8[]) THEN json_build_array({reading.INSTANCE})::text END
FROM memory_instances i JOIN memory_scopes s ON s.id = i.scope_id WHERE i.number = ANY(%(considered)s::int8[])
"""
_MENTION = np.dtype([("number", ">i8"), ("topic", ">i8"), ("mentions", ">f8"), ("weight", ">f4")])


def associate(
    connection: psycopg.Connection[Any],
    found: Found,
    considered: Sequence[int],
    seeds: Sequence[int],
    shares: NDArray[np.float64],
    shown: Sequence[int] = (),
    beside: psycopg.Connection[Any] | None = None,
) -> tuple[Links, dict[int, bytes]]:
    """Return what the best candidates say for those `considered`, and by number the instances `shown`, as
    `reading.instance_of_json` takes them.

    considered, seeds, shown: positions among the candidates, the seeds best first. shares: of the activation, one per
    seed, adding up to 1. beside: as for `candidates.find`. Inside the transaction in which `found` was found; raises
    what the database raises.
    """
    wanted = sorted({*considered, *seeds, *shown})
    values = {
        "seeds": lookup.array(found.numbers[list(seeds)].tolist()),
        "considered": lookup.array(found.numbers[wanted].tolist()),
        "shown": lookup.array(found.numbers[list(shown)].tolist()),
        "hub": int(min(_HUB, max(3.0, 0.05 * found.place.instances))),
    }
    with connection.pipeline(), beside.pipeline() if beside else nullcontext():
        if beside:
            beside.execute(lookup.PLANNED)
        mentions = (beside or connection).execute(_MENTIONS, values, prepare=True, binary=True)
        rows = connection.execute(_ROWS, values, prepare=True, binary=True)
    numbers, vectors, instances = _read(rows, len(found.whitening.mean))
    row = mentions.fetchone()
    packed = np.frombuffer((row and row[0]) or b"", _MENTION)
    return _links(found, numbers, vectors, packed, seeds, shares), instances


def _read(rows: psycopg.Cursor[Any], dimension: int) -> tuple[NDArray[np.int64], NDArray[np.float32], dict[int, bytes]]:
    """Return numbers, vectors (n, d) and instances, as far as they are there, of the rows of `_ROWS`.

    Taken as the server sends them: a vector is a head of four bytes and its numbers.
    """
    result = rows.pgresult
    assert result is not None
    count = rows.rowcount
    numbers = np.frombuffer(b"".join(result.get_value(at, 0) or b"" for at in range(count)), ">i8").astype(np.int64)
    kind = np.dtype([("head", ">i4"), ("vector", ">f4", (dimension,))])
    vectors = np.frombuffer(b"".join(result.get_value(at, 1) or b"" for at in range(count)), kind)["vector"]
    shown = {
        number: text for at, number in enumerate(numbers.tolist()) if (text := result.get_value(at, 2)) is not None
    }
    return numbers, vectors.astype(np.float32), shown


def _links(
    found: Found, numbers: NDArray[np.int64], vectors: NDArray[np.float32], mentions: Any, seeds: Sequence[int],
    shares: NDArray[np.float64],
) -> Links:  # fmt: skip
    count, whole = len(found.numbers), max(2.0, found.place.instances)
    mentions = mentions[np.isin(mentions["number"], numbers)]  # something may have been forgotten in between
    resembling, associated = np.zeros((len(seeds), count)), np.zeros((len(seeds), count))
    place = np.searchsorted(found.numbers, numbers)
    row_of = np.full(count, -1, np.intp)
    row_of[place] = np.arange(len(place))
    present = [at for at, seed in enumerate(seeds) if row_of[seed] >= 0]  # one, too
    if not present:
        return Links(tuple(seeds), resembling, associated)
    alike = found.whitening.between(vectors[row_of[[seeds[at] for at in present]]], vectors)
    resembling[np.asarray(present)[:, None], place[None, :]] = alike * shares[present][:, None]
    associated[:, place] = _shared(mentions, numbers, found.numbers[list(seeds)], shares, whole)
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
