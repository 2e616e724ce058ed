"""What a replay found: differences between what was recorded and what today's code does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DECISION = "decision"
OUTPUT = "output"
COST = "cost"
RECORD = "not recorded"
KINDS = (DECISION, OUTPUT, COST, RECORD)


@dataclass(frozen=True)
class Difference:
    """One difference. kind: decision, output, cost, or not recorded (today's code asks for what the record lacks).

    place: run, its id, step index and handler (None and "" for the run as a whole), and try. field: what differs, e.g.
    `outcome` or `start[0].content.text`. recorded, replayed: JSON values, None for nothing; of what the journal keeps a
    digest only, `recorded` is that digest. inexact: the step was given a value without the secret that was in it.
    """

    kind: str
    run_id: str
    id: str
    step: int | None
    handler: str
    attempt: int
    field: str
    recorded: Any = None
    replayed: Any = None
    inexact: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        packed = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if not self.inexact:
            del packed["inexact"]
        return packed


@dataclass(frozen=True)
class Usage:
    """Tokens and cost (US dollars) of model calls, as recorded and as today's code would need them."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0
    cost: float = 0.0

    @classmethod
    def of(cls, detail: Mapping[str, Any]) -> Usage:
        """Return what the detail of a step's entry says."""
        if not ("tokens_in" in detail or "tokens_out" in detail or "cost" in detail):
            return _NOTHING
        return cls(*(_number(detail.get(name)) for name in ("tokens_in", "tokens_out", "cost")))

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both."""
        if other is _NOTHING:
            return self
        cost = round(self.cost + other.cost, 9)
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, cost)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"tokens_in": int(self.tokens_in), "tokens_out": int(self.tokens_out), "cost": self.cost}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


_NOTHING = Usage()


@dataclass
class TreeReplay:
    """What became of one recorded run tree. skipped: why it was not replayed, "" when it was.

    runs, steps: how many of them were replayed. notes: what a reader should know, such as a run that was cancelled.
    """

    root_id: str
    id: str = ""
    skipped: str = ""
    runs: int = 0
    steps: int = 0
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    recorded: Usage = _NOTHING
    replayed: Usage = _NOTHING

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "run_id": self.root_id, "id": self.id, "skipped": self.skipped, "runs": self.runs, "steps": self.steps,
            "differences": [difference.as_dict() for difference in self.differences], "notes": self.notes,
            "recorded": self.recorded.as_dict(), "replayed": self.replayed.as_dict(),
        }  # fmt: skip


@dataclass
class Summary:
    """The sums over many trees. seconds: what the replaying itself took; kinds: differences by kind."""

    trees: int = 0
    runs: int = 0
    steps: int = 0
    same: int = 0
    different: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    recorded: Usage = _NOTHING
    replayed: Usage = _NOTHING
    seconds: float = 0.0

    def add(self, tree: TreeReplay) -> None:
        """Count one tree."""
        if tree.skipped:
            self.skipped[tree.skipped] = self.skipped.get(tree.skipped, 0) + 1
            return
        self.trees += 1
        self.runs += tree.runs
        self.steps += tree.steps
        self.same += not tree.differences
        self.different += bool(tree.differences)
        for difference in tree.differences:
            self.kinds[difference.kind] = self.kinds.get(difference.kind, 0) + 1
        self.recorded += tree.recorded
        self.replayed += tree.replayed

    @property
    def differences(self) -> int:
        """Return the number of differences."""
        return sum(self.kinds.values())

    @property
    def rate(self) -> float:
        """Return the runs replayed per second."""
        return self.runs / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "trees": self.trees, "runs": self.runs, "steps": self.steps, "same": self.same,
            "different": self.different, "differences": self.kinds, "skipped": self.skipped,
            "recorded": self.recorded.as_dict(), "replayed": self.replayed.as_dict(),
            "seconds": round(self.seconds, 3), "runs_per_second": round(self.rate, 1),
        }  # fmt: skip
