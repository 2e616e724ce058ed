"""After a crash: an operation that was cut off is finished or undone, whoever notices it first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia.pkg.operation import Deploy, OnStep


@dataclass(frozen=True)
class Recovered:
    """What became of the operation `id` that was cut off; text: in plain words."""

    id: str
    outcome: Literal["finished", "undone"]
    text: str


def recover(
    root: Path, *, deploy: Deploy | None = None, on_step: OnStep = lambda step: None, wait: float = 10.0
) -> Recovered | None:
    """Finish or undo what a killed `pkg` left behind; None when there was nothing to do. Cheap then: one look.

    An operation that was handed to the running bot is finished (with `deploy`, if given: handed over once more, and
    undone when that fails), an earlier one is undone. While a live `pkg` exchanges files it waits for up to `wait`
    seconds; one that is already handing over, or asks its user, is left alone.

    Raises `OperationError` when it can't be put right now: the message says why and what to do; the next call tries
    again.
    """
    raise NotImplementedError
