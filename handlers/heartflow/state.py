"""What the planner knows of a chat between messages: spec §12.4's `PlannerState`, in `lumia.store`.

The attention vector is the direction of what the talk is about. It lies in the space of one embedding model and is kept
as base64 float16; a vector of another model, or of another length, is none.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import lumia

from . import lines
from .lines import Line

PLANNER, WINDOW_END, LAST_SEND, PAUSED = "planner", "window_end", "last_send", "paused"
_KEPT = 30 * 86400.0
WINDOW_FACTOR = 0.7
"""By what the threshold is multiplied while the bot is attentive (spec §12.3)."""


@dataclass(frozen=True, slots=True)
class PlannerState:
    """One chat's state. model: the embedding model of `attention_vector`; times in seconds since 1970.

    context_buffer: the newest lines; `lines.py` keeps the others, and what stands for the older ones.
    """

    group_id: str
    attention_vector: tuple[float, ...] = ()
    attention_window_end: float = 0.0
    dynamic_threshold: float = 0.0
    context_buffer: tuple[Line, ...] = ()
    model: str = ""


def load(scope: str, *, base_threshold: float, now: float) -> PlannerState:
    """Return the state of a chat, with the beginnings of its newest lines."""
    kept = lumia.store.get(PLANNER, scope=scope) or {}
    window_end = float(lumia.store.get(WINDOW_END, scope=scope) or 0.0)
    return PlannerState(
        group_id=scope,
        attention_vector=unpacked(str(kept.get("vector", ""))),
        attention_window_end=window_end,
        dynamic_threshold=threshold(base_threshold, window_end, now),
        context_buffer=tuple(lines.newest(scope)),
        model=str(kept.get("model", "")),
    )


def threshold(base: float, window_end: float, now: float) -> float:
    """Return the score a message must exceed now: lower while the bot is attentive (spec §12.3, step 3)."""
    return base * WINDOW_FACTOR if now < window_end else base


def shift(scope: str, by: Sequence[float], model: str) -> None:
    """Add a shift to the attention vector of a chat, renormalise and keep it (DESIGN §11); commits with the step."""
    kept = lumia.store.get(PLANNER, scope=scope) or {}
    before = unpacked(str(kept.get("vector", ""))) if kept.get("model") == model else ()
    moved = added(before, by)
    if moved:
        lumia.store.set(PLANNER, {"vector": packed(moved), "model": model}, scope=scope, ttl=_KEPT)


def added(vector: Sequence[float], by: Sequence[float]) -> tuple[float, ...]:
    """Return the unit vector of the sum; `by` alone where the lengths differ, () where nothing is left to point at."""
    whole = [a + b for a, b in zip(vector, by, strict=True)] if len(vector) == len(by) else list(by)
    norm = math.sqrt(math.fsum(x * x for x in whole))
    return tuple(x / norm for x in whole) if norm > 1e-9 and math.isfinite(norm) else ()


def opened(scope: str, now: float, seconds: float) -> None:
    """Note that the bot spoke: its cooldown begins, and so does the window in which it is attentive."""
    lumia.store.set(LAST_SEND, now, scope=scope, ttl=86400.0)
    lumia.store.set(WINDOW_END, now + seconds, scope=scope, ttl=86400.0)


def packed(vector: Sequence[float]) -> str:
    """Return a vector as base64 of little-endian float16."""
    return base64.b64encode(struct.pack(f"<{len(vector)}e", *(max(-65504.0, min(65504.0, x)) for x in vector))).decode()


def unpacked(text: str) -> tuple[float, ...]:
    """Return the vector that `packed` wrote; () for anything else."""
    try:
        data = base64.b64decode(text, validate=True)
        found = struct.unpack(f"<{len(data) // 2}e", data)
    except (ValueError, struct.error):
        return ()
    return found if all(map(math.isfinite, found)) else ()


def embedding_model() -> str:
    """Return which model makes the bot's vectors now; the same in a replay."""
    return str(lumia.recorded("model", "embedding", _embedding_model))


def _embedding_model() -> str:
    return next(info.model for info in lumia.models.describe() if info.role == "embedding")
