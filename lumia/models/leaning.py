"""Could anyone who knows the subject answer a line, or only the people present? Told from its vector, without a model.

"How long does concrete take to dry" is open to everybody, "where did you put my keys" to one person. Embedding models
set such lines apart whatever they are about, so a direction in their space is enough: the one that best tells the
samples of `kinds` apart (ridge regression, solved in its dual form, since samples are fewer than dimensions). It is
measured with the model in use, once per process. A model that can't tell the samples apart has no such direction.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul

from lumia.models.kinds import CLOSED, OPEN

LEAST_RIGHT = 0.8
"""Share of samples that must be told by the others, or there is nothing to go by."""
_RIDGE = 1.0

Rows = Sequence[Sequence[float]]
Embed = Callable[[Sequence[str]], Rows]


@dataclass(frozen=True, slots=True)
class Direction:
    """Where open lines lie: `weights` with as many numbers as a vector has, and what to subtract."""

    weights: tuple[float, ...]
    offset: float

    def of(self, vector: Sequence[float]) -> float | None:
        """Return how open a line is: about 1 for open ones, -1 for closed ones; None for a vector of another size."""
        if len(vector) != len(self.weights):
            return None
        found = math.fsum(map(mul, self.weights, vector)) - self.offset
        return found if math.isfinite(found) else None


_known: dict[tuple[str, str], Direction | None] = {}
_lock = threading.Lock()


def direction_of(identity: str, input_type: str, embed: Embed) -> Direction | None:
    """Return the direction of the model whose answers `identity` tells apart; measured once per process.

    None when the model doesn't tell the samples apart, or its vectors are of no use. Raises what `embed` raises.
    """
    key = identity, input_type
    if key not in _known:
        # Without the lock: were the server to hang, everyone would wait for its time limit in turn.
        found = measure(embed)
        with _lock:
            _known[key] = found
    return _known[key]


def measure(embed: Embed) -> Direction | None:
    """Return the direction that tells the samples apart; None when half of them don't foretell the other half."""
    rows = embed([*OPEN, *CLOSED])
    whole = len(rows) == len(OPEN) + len(CLOSED) and len({len(row) for row in rows}) == 1 and bool(rows[0])
    if not whole or not all(math.isfinite(x) for row in rows for x in row):
        return None
    opened, closed = rows[: len(OPEN)], rows[len(OPEN) :]
    halves = [(opened[at::2], closed[at::2]) for at in (0, 1)]
    right = sum(_right(fitted(*halves[at]), *halves[1 - at]) for at in (0, 1))
    return fitted(opened, closed) if right >= LEAST_RIGHT * len(rows) else None


def fitted(opened: Rows, closed: Rows) -> Direction:
    """Return the direction between two kinds of vectors: on average 1 for the first kind and -1 for the second."""
    rows = [*opened, *closed]
    middle = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    centred = [[x - m for x, m in zip(row, middle, strict=True)] for row in rows]
    wanted = [1.0] * len(opened) + [-1.0] * len(closed)
    mean = math.fsum(wanted) / len(wanted)
    gram = [[math.fsum(map(mul, one, other)) for other in centred] for one in centred]
    ridge = _RIDGE * math.fsum(gram[at][at] for at in range(len(gram))) / len(gram) or 1.0
    for at, row in enumerate(gram):
        row[at] += ridge
    shares = _solved(gram, [one - mean for one in wanted])
    weights = [math.fsum(map(mul, shares, column)) for column in zip(*centred, strict=True)]
    high, low = (_mean([math.fsum(map(mul, weights, row)) for row in kind]) for kind in (opened, closed))
    half = (high - low) / 2 or 1.0
    return Direction(tuple(weight / half for weight in weights), (high + low) / 2 / half)


def forget() -> None:
    """Measure everything anew at the next use: between tests."""
    with _lock:
        _known.clear()


def _right(found: Direction, opened: Rows, closed: Rows) -> int:
    return sum((found.of(row) or 0.0) > 0 for row in opened) + sum((found.of(row) or 0.0) < 0 for row in closed)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return x of matrix · x = right for a symmetric positive definite matrix, by Gaussian elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at, pivot in enumerate(rows):
        for row in rows[at + 1 :]:
            share = row[at] / pivot[at]
            if share:
                row[at:] = [one - share * other for one, other in zip(row[at:], pivot[at:], strict=True)]
    found = [0.0] * len(rows)
    for at in range(len(rows) - 1, -1, -1):
        rest = math.fsum(map(mul, rows[at][at + 1 : -1], found[at + 1 :]))
        found[at] = (rows[at][-1] - rest) / rows[at][at]
    return found
