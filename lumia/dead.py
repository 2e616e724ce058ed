"""Dead letters: what was given up, with everything needed to see why and to start it again (DESIGN §5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lumia.journal import JournalEntry
from lumia.routes import pattern

MAX_LETTERS = 10_000
"""Letters that are kept; past them the oldest one goes, and is counted."""
RETRIED, DROPPED = "retried", "dropped"
"""Outcomes of the journal's entry that tells what became of a letter."""
AS_RUN = "as run "
"""In that entry, before the run that goes on from a retried letter."""
RETRY = "retry/"
"""In that run's cause, before the run that left the letter."""


@dataclass(frozen=True)
class Failure:
    """One try that came to nothing. time: seconds since 1970. lost: it did not fail but its worker died, or it hung."""

    attempt: int
    time: float
    worker: str
    error: str
    lost: bool = False

    def packed(self) -> list[Any]:
        """Return the short JSON form kept while the run is in flight."""
        return [self.attempt, self.time, self.worker, self.error, int(self.lost)]

    @classmethod
    def unpacked(cls, row: list[Any]) -> Failure:
        """Return the failure of a `packed` row."""
        attempt, time, worker, error, lost = row
        return cls(int(attempt), float(time), str(worker), str(error), bool(lost))


@dataclass(frozen=True)
class DeadLetter:
    """What was given up: the step, why, and the Box it had.

    attempts: tries in all. time: seconds since 1970. history: the tries, oldest first; trace: the last one's traceback.
    plan: JSON text of what a retry runs, "" when that is not known any more. retry_of: "run/step" whose effects the
    step shares, "" for its own. arc: its Box was a live resource, which is gone. hold: its run reaches no chat. beside:
    events (id, Box) that a retry begins along with it, since they were never begun.
    """

    run_id: str
    step: int
    handler: str
    id: str
    key: str
    error: str
    attempts: int
    box: str
    time: float
    root_id: str = ""
    flow: str = ""
    priority: int = 3
    plan: str = ""
    retry_of: str = ""
    arc: bool = False
    trace: str = ""
    history: tuple[Failure, ...] = ()
    hold: bool = False
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Return `<run>.<step>`, which names the letter."""
        return f"{self.run_id}.{self.step}"

    @property
    def ledger(self) -> str:
        """Return the "run/step" under which the step's effects are recorded."""
        return self.retry_of or f"{self.run_id}/{self.step}"

    @property
    def first_name(self) -> str:
        """Return the name of the letter that was retried first, its own when it is no retry's."""
        run_id, _, step = self.ledger.rpartition("/")
        return f"{run_id}.{step}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DeadLetter:
        """Return the letter that `as_dict` described; fields of a newer version are left out."""
        known = {field.name for field in fields(cls)} - {"history", "beside"}
        named = {name: value for name, value in data.items() if name in known}
        beside = tuple((id, wire) for id, wire in data.get("beside") or ())
        return cls(**named, history=tuple(map(_failure, data.get("history") or ())), beside=beside)


def _failure(row: Any) -> Failure:
    return Failure.unpacked(row) if isinstance(row, list) else Failure(**row)


@dataclass(frozen=True)
class DeadFilter:
    """Which dead letters are wanted.

    letters: names, runs, or the beginning of either. id, handler: globs. group: a lane's key, or its part after the
    last colon. error: text the error contains, upper and lower case alike. since, until: seconds since 1970.
    """

    letters: tuple[str, ...] = ()
    id: str = "*"
    handler: str = "*"
    group: str = ""
    error: str = ""
    since: float = 0.0
    until: float = math.inf
    limit: int = 100

    def names(self, name: str) -> bool:
        """Tell whether a letter of this name may be wanted."""
        return not self.letters or name.startswith(self.letters)

    def matches(self, letter: DeadLetter) -> bool:
        """Tell whether `letter` is wanted."""
        return (
            self.names(letter.name)
            and self.since <= letter.time <= self.until
            and pattern(self.id).fullmatch(letter.id) is not None
            and pattern(self.handler).fullmatch(letter.handler) is not None
            and self.group in ("", letter.key, letter.key.rpartition(":")[2])
            and self.error.lower() in letter.error.lower()
        )


def is_letter(entry: JournalEntry) -> bool:
    """Tell whether an entry tells that a dead letter was left."""
    return entry.kind == "dead" and not is_settled(entry)


def is_settled(entry: JournalEntry) -> bool:
    """Tell whether an entry tells what became of a dead letter."""
    return entry.kind == "dead" and entry.outcome in (RETRIED, DROPPED)


def open_letters(entries: Iterable[JournalEntry]) -> set[str]:
    """Return the names of the dead letters of which `entries` don't tell what became of them."""
    left: set[str] = set()
    for entry in entries:
        name = f"{entry.run_id}.{entry.step or 0}"
        if is_letter(entry):
            left.add(name)
        elif is_settled(entry):
            left.discard(name)
    return left
