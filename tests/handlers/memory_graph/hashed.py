"""An embedder for tests that needs no model: the sum of one fixed random direction per term."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from handlers.memory_graph import texts
from handlers.memory_graph.types import Calibration, Embedded


class HashedEmbedder:
    """Texts that share terms are alike; see `types.Embedder`."""

    model, dimension, calibration = "hashed", 64, Calibration(0.0, 0.1)

    def passages(self, given: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.query(text) for text in given]) if given else np.zeros((0, self.dimension), np.float32)

    def query(self, text: str) -> Embedded:
        total = np.full(self.dimension, 0.01, np.float32)
        for term in texts.terms(text):
            total += np.random.default_rng(crc32(term.encode("utf-8", "replace"))).normal(size=self.dimension)
        found: Embedded = (total / np.linalg.norm(total)).astype(np.float32)
        return found
