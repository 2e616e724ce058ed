"""How similar unrelated texts are to an embedding model, so that a threshold means the same with every model.

Each model fills its own part of the sphere: unrelated texts lie near 0.8 for e5 and near 0 for hashed words. What is
near and what is far is therefore told from the mean and the spread of forty pairs that have nothing in common, measured
with the model in use, once per process.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul

from lumia.errors import ModelError
from lumia.models.samples import UNRELATED


@dataclass(frozen=True, slots=True)
class Calibration:
    """How similar unrelated texts are to this model: mean and standard deviation of their cosine similarity."""

    mean: float = 0.0
    std: float = 0.1

    def closeness(self, similarity: float) -> float:
        """Return where `similarity` lies between unrelated texts (0) and the same text (1)."""
        return (similarity - self.mean) / max(1e-6, 1.0 - self.mean)

    def similarity(self, closeness: float) -> float:
        """Return the cosine similarity of a `closeness`; the inverse."""
        return self.mean + closeness * max(1e-6, 1.0 - self.mean)


@dataclass(frozen=True, slots=True)
class Scale:
    """An embedding model as it is used: its name, the numbers of its vectors, and how alike unrelated texts are."""

    model: str
    dimension: int
    calibration: Calibration


_known: dict[tuple[str, str], Scale] = {}
_lock = threading.Lock()


def scale_of(
    model: str, identity: str, input_type: str, embed: Callable[[Sequence[str]], Sequence[Sequence[float]]]
) -> Scale:
    """Return the scale of a model whose answers `identity` tells apart from others'; measured once per process.

    Raises `ModelError` for vectors nothing can be measured with, and what `embed` raises.
    """
    key = identity, input_type
    found = _known.get(key)
    if found is None:
        # Without the lock: were the server to hang, everyone would wait for its time limit in turn.
        found = measure(model, embed)
        with _lock:
            _known[key] = found
    return found


def measure(model: str, embed: Callable[[Sequence[str]], Sequence[Sequence[float]]]) -> Scale:
    """Return mean and standard deviation of the similarity of the texts of `samples.UNRELATED`."""
    rows = embed([text for pair in UNRELATED for text in pair])
    dimension = len(rows[0]) if rows else 0
    if not dimension or len(rows) != 2 * len(UNRELATED) or any(len(row) != dimension for row in rows):
        raise ModelError(f"the embedding {model} gave no vectors of one length; choose another model for this role")
    similarities = [cosine(rows[at], rows[at + 1]) for at in range(0, len(rows), 2)]
    mean = math.fsum(similarities) / len(similarities)
    variance = math.fsum((one - mean) ** 2 for one in similarities) / len(similarities)
    return Scale(model, dimension, Calibration(round(mean, 6), round(math.sqrt(variance), 6)))


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors of one length; 0 when a vector has no direction."""
    product = math.fsum(map(mul, one, other))
    lengths = math.sqrt(math.fsum(map(mul, one, one)) * math.fsum(map(mul, other, other)))
    found = product / lengths if lengths > 0 else 0.0
    return found if math.isfinite(found) else 0.0


def forget() -> None:
    """Measure everything anew at the next use: between tests."""
    with _lock:
        _known.clear()
