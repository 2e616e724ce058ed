"""The journal: the append-only record of runs, steps and effects (DESIGN §2, §5).

On the wire an entry is one compact JSON object; `JournalEntry` is what readers see. Wire keys: n kind, r run, o root
run, i id, k key, x step, h handler, z outcome, y reason, m duration in ms, a attempt, w worker, d detail, f flow; the
time is the journal's own. A root run is its own root, which is left out. The Box a run began with is in its first entry
after `start` (detail "box"), so that it can be replayed; while the run waits, only its record holds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CANCEL = "cancel"
LOST = "lost"
"""Outcome of a try that ended without a commit: its worker died, or it hung."""
NEXT_DELAY = "next_delay"
"""Detail of a step that put its successor off: by how many seconds."""
KEPT = "kept"
"""Detail of a start: how many seconds the inbox held it before (`lumia.ports.Inbox`)."""
DEFERRED = "deferred"
"""Detail of a step that the outside world put off: for how many seconds."""
KINDS = ("start", "join", "step", "end", "effect", "dead", CANCEL)
MAX_REASON = 500
_WIRE = {
    "kind": "n",
    "run_id": "r",
    "root_id": "o",
    "id": "i",
    "key": "k",
    "step": "x",
    "handler": "h",
    "outcome": "z",
    "reason": "y",
    "ms": "m",
    "attempt": "a",
    "worker": "w",
    "detail": "d",
    "flow": "f",
}


_encoded = json.JSONEncoder(separators=(",", ":")).encode


def entry_text(
    kind: str,
    run_id: str,
    root_id: str,
    id: str,
    key: str,
    *,
    outcome: str = "",
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
    flow: str = "",
) -> str:
    """Return the `dump` of an entry about a whole run, without making the entry: each accepted run has one or two."""
    packed: dict[str, Any] = {"n": kind}
    if run_id:
        packed["r"] = run_id
    if root_id != run_id:
        packed["o"] = root_id
    named = (("i", id), ("k", key), ("z", outcome), ("y", reason), ("d", detail), ("f", flow))
    packed |= {short: value for short, value in named if value}
    return _encoded(packed)


def clean(text: str, limit: int = MAX_REASON, *, end: bool = False) -> str:
    """Return `text` as it may stand in a record: no NUL, no lone surrogates, at most `limit` characters.

    end: keep the last characters instead of the first, as for a traceback.
    """
    shown = text.replace("\x00", "␀").encode("utf-8", "replace").decode()
    if len(shown) <= limit:
        return shown
    return "…" + shown[1 - limit :] if end else shown[: limit - 1] + "…"


def described(error: BaseException) -> str:
    """Return an error's type and message, also for one whose own `__str__` fails."""
    try:
        text = str(error)
    except Exception:
        text = "(its message can't be shown)"
    return f"{type(error).__name__}: {text}"


@dataclass(frozen=True)
class JournalEntry:
    """One thing that happened.

    kind: start, join (a message that a waiting run took in), step, end, effect, dead (a dead letter was left, or with
    an outcome: was retried or dropped) or cancel (somebody asked for the end). cursor: position in the
    journal. time: seconds since 1970. ms: duration in milliseconds. step: index in the plan, from 0. detail: whatever
    else is known (cause, box, error, effect, notes). flow: of a start, pipe or
    event.
    """

    kind: str
    run_id: str
    root_id: str = ""
    id: str = ""
    key: str = ""
    step: int | None = None
    handler: str = ""
    outcome: str = ""
    reason: str = ""
    time: float = 0.0
    ms: float = 0.0
    attempt: int = 0
    worker: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    cursor: str = ""
    flow: str = ""

    def dump(self) -> str:
        """Return the wire text; empty fields, cursor and time (the journal's own) are left out."""
        named = {short: getattr(self, name) for name, short in _WIRE.items()}
        packed = {
            short: value for short, value in named.items() if value not in ("", 0, 0.0, None, {}) or value is False
        }
        if self.step is not None:
            packed["x"] = self.step
        if self.root_id == self.run_id:
            packed.pop("o", None)
        elif not self.root_id:
            packed["o"] = ""
        return _encoded(packed)

    @classmethod
    def load(cls, text: str, *, cursor: str, time: float) -> JournalEntry:
        """Return the entry whose `dump` is `text`, at its place in the journal."""
        packed = json.loads(text)
        named = {name: packed[short] for name, short in _WIRE.items() if short in packed}
        run_id = named.get("run_id", "")
        return cls(**{"run_id": run_id, "root_id": run_id, **named}, cursor=cursor, time=time)
