"""Median, spread and percentiles of repeated measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """The median of the rounds with the lowest and the highest one."""

    median: float
    low: float
    high: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value; raises `ValueError` for none."""
        if not values:
            raise ValueError("a spread needs at least one value")
        return cls(median(values), min(values), max(values), tuple(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` % of the values don't exceed (nearest rank).

    Raises `ValueError` for no values.
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    ranked = sorted(values)
    rank = -(-len(ranked) * percent // 100)  # rounded up
    return ranked[min(len(ranked), max(1, int(rank))) - 1]
