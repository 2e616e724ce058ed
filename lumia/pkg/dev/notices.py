"""What a session tells the author."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lumia.pkg.dev.blame import Failure


@dataclass(frozen=True)
class Notice:
    """Something that happened.

    kind: reply, output (of print), failed (a handler raised), broken (a version can't be loaded), loaded, reloaded,
    hung, crashed or warning. text: a sentence, or what was said. failure: of failed and broken, what is wrong where.
    detail: to, of a reply, its destination; seconds, of reloaded, from noticing the save; old, of broken, whether an
    earlier version goes on answering; attempt, of failed.
    """

    kind: str
    text: str
    failure: Failure | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Answer:
    """What became of something that was said.

    outcome: of its run (done, stopped, blocked, failed, cancelled), or refused (it is nothing that can be started),
    hung, crashed, dropped (its process ended) or unanswerable (no version works). steps: handler, outcome, reason and
    ms of each step. trouble: a handler has raised.
    """

    until: float
    outcome: str = ""
    reason: str = ""
    run_id: str = ""
    ms: float = 0.0
    replies: int = 0
    trouble: bool = False
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def fine(self) -> bool:
        """Tell whether the run came to the end its handlers wanted."""
        return self.outcome in ("done", "stopped", "blocked")

    def end(self, outcome: str, reason: str = "") -> None:
        """Note how it ended."""
        self.outcome, self.reason = outcome, reason
        self.over.set()
