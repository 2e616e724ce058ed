"""What is usual in a scope, so that a query finds what is special: the mean and covariance of its vectors.

The vectors of a small embedding model point in nearly one direction, and those of one chat even more so. A query is
compared by q' · (x - mean) with q' = (covariance + shrinkage)⁻¹ (q - mean), the Mahalanobis product (all-but-the-top
is the special case of Mu & Viswanath 2018). Only the query changes, so stored vectors and their index stay as they
are. The similarity is given in standard deviations of the scope, which makes it comparable between models and
scopes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .types import Embedded

if TYPE_CHECKING:
    import psycopg

SHRINKAGE = 10.0
"""Added to each direction's variance, in mean variances of all directions; 6 to 20 are equally good on LoCoMo's dev
split."""
SAMPLE = 1024
"""Vectors of a scope that are looked at."""
USUAL = 6.0
"""Deviations that scopes of some hundred records hardly know; what is beyond counts by its logarithm only. A scope of a
few records knows no spread: what lies where none of them was would outweigh everything else with fifty."""
_SMALLEST, _GROWTH = 4, 1.5
_KEPT_BYTES = 64 << 20
"""What a process keeps for the scopes it was last asked in: 110 of 384 dimensions, 6 of 1536."""


@dataclass(frozen=True)
class Moments:
    """Sums over the sampled vectors of a scope: how many, their sum (d,) and the sum of their outer products (d, d)."""

    count: int
    total: NDArray[np.float32]
    products: NDArray[np.float32]


@dataclass(frozen=True)
class Direction:
    """A query as it is compared. vector: shape (d,), of length 1. The similarity of a stored x in standard deviations
    is (x · vector - offset) / scale, up to `USUAL`."""

    vector: Embedded
    offset: float
    scale: float

    def deviations(self, cosines: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the similarities of stored vectors of length 1, given the cosines of their angles with `vector`."""
        return bounded((np.asarray(cosines, np.float64) - self.offset) / self.scale)


@dataclass(frozen=True)
class Whitening:
    """mean (d,), the inverse of the shrunk covariance (d, d), and the ridge by which that was shrunk."""

    mean: NDArray[np.float32]
    inverse: NDArray[np.float32]
    ridge: float

    def of(self, query: Embedded) -> Direction:
        """Return how a query is compared in this scope."""
        centred = query - self.mean
        turned = self.inverse @ centred
        length = float(np.linalg.norm(turned))
        if not np.isfinite(length) or length < 1e-12:
            return Direction(query, 0.0, 1.0)
        vector = (turned / length).astype(np.float32)
        spread = float(self._spread(turned[None, :], centred[None, :])[0])
        return Direction(vector, float(vector @ self.mean), spread)

    def between(self, sources: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return how alike stored vectors are, shape (sources, others): each source compared as a query is (`of`)."""
        centred = sources - self.mean
        turned = centred @ self.inverse
        vectors = turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12)
        return bounded((vectors @ (others - self.mean).T) / self._spread(turned, centred)[:, None])

    def _spread(self, turned: NDArray[np.floating[Any]], centred: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the scope's standard deviation in each direction `turned`.

        The covariance itself is not kept: covariance · turned = centred - ridge · turned.
        """
        squares = np.maximum(np.sum(turned * turned, axis=1, dtype=np.float64), 1e-24)
        products = np.sum(turned * centred, axis=1, dtype=np.float64)
        found: NDArray[np.float64] = np.maximum(np.sqrt(np.maximum(0.0, products / squares - self.ridge)), 1e-6)
        return found


def whitening_of(parts: Sequence[Moments], dimension: int) -> Whitening:
    """Return what is usual in several scopes together; with fewer than two vectors nothing is, and queries stay as
    they are."""
    count = sum(one.count for one in parts)
    if count < 2:
        return Whitening(np.zeros(dimension, np.float32), np.eye(dimension, dtype=np.float32), 1.0 - 1.0 / dimension)
    total = np.sum([one.total for one in parts], axis=0, dtype=np.float64)
    mean = total / count
    products = np.sum([one.products for one in parts], axis=0, dtype=np.float64)
    covariance = products / count - np.outer(mean, mean)
    ridge = SHRINKAGE * max(float(np.trace(covariance)) / dimension, 1e-9)
    inverse = np.linalg.inv(covariance + ridge * np.eye(dimension))
    return Whitening(np.asarray(mean, np.float32), np.asarray(inverse, np.float32), ridge)


def bounded(deviations: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return deviations with what is beyond `USUAL`, above or below, brought near to it; their order stays."""
    size = np.abs(np.asarray(deviations, np.float64))
    found: NDArray[np.float64] = np.sign(deviations) * (
        np.minimum(size, USUAL) + np.log1p(np.maximum(0.0, size - USUAL))
    )
    return found


def moments_of(vectors: NDArray[np.float32]) -> Moments:
    """Return the sums over vectors of shape (n, d)."""
    return Moments(len(vectors), np.asarray(vectors.sum(axis=0)), np.asarray(vectors.T @ vectors))


def sampled(instances: int) -> tuple[int, list[int]]:
    """Return how far a scope is looked at and the `seq` that are.

    Steps of half its size, so that every process samples the same and looks again only when the scope has grown.
    """
    bucket = float(_SMALLEST)
    while bucket * _GROWTH <= instances:
        bucket *= _GROWTH
    size = min(int(bucket), instances)
    if size <= SAMPLE:
        return size, list(range(size))
    return size, [at * size // SAMPLE for at in range(SAMPLE)]


_whitenings: OrderedDict[tuple[Any, ...], Whitening] = OrderedDict()
_lock = threading.Lock()


def of_scopes(
    connection: psycopg.Connection[Any], identity: tuple[Any, ...], counts: Sequence[tuple[int, int]], dimension: int
) -> Whitening:
    """Return what is usual in the scopes (number, instances ever written); kept per process until one has grown by
    half.

    identity: tells apart databases, schemas and embedders.
    """
    samples = [(scope, *sampled(count)) for scope, count in counts]
    key = (*identity, dimension, *((scope, size) for scope, size, _ in samples))
    with _lock:
        if (known := _whitenings.get(key)) is not None:
            _whitenings.move_to_end(key)
            return known
    parts = [
        moments_of(vectors)
        for scope, _, seqs in samples
        if len(vectors := _vectors(connection, scope, seqs, dimension))
    ]
    found = whitening_of(parts, dimension)
    with _lock:
        _whitenings[key] = found
        while len(_whitenings) > 1 and sum(one.inverse.nbytes for one in _whitenings.values()) > _KEPT_BYTES:
            _whitenings.popitem(last=False)
    return found


def forget() -> None:
    """Look at all scopes anew."""
    with _lock:
        _whitenings.clear()


def _vectors(
    connection: psycopg.Connection[Any], scope: int, seqs: Sequence[int], dimension: int
) -> NDArray[np.float32]:  # fmt: skip
    rows = connection.execute(
        "SELECT content_embedding FROM memory_instances WHERE scope_id = %s AND seq = ANY(%s) ORDER BY seq",
        (scope, list(seqs)),
        binary=True,
    ).fetchall()
    vectors = [as_array(row[0]) for row in rows]
    return np.stack(vectors) if vectors else np.zeros((0, dimension), np.float32)


def as_array(value: Any) -> NDArray[np.float32]:
    """Return a stored vector as psycopg gives it, shape (d,)."""
    return np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value, np.float32)
