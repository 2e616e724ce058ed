"""Weights of the ranking (ranking.py)."""

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
BASE = {"dense": 0.8, "lexical": 0.1, "coverage": 2.0, "window": 2.0, "speaker": 2.3, "question": -0.7, "length": 0.4}
FINAL = {"dense": 0.8, "lexical": 0.1, "coverage": 2.0, "window": 2.0, "speaker": 2.3, "question": -0.7, "length": 0.4}
