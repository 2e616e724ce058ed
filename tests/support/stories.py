"""Recorded runs written by hand, for what explains them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lumia.ids import child_id, timed_id
from lumia.journal import JournalEntry

T0 = 1_700_000_000.0


@dataclass
class Story:
    """A journal that is told in milliseconds since T0; each telling returns the story itself or the run's id."""

    entries: list[JournalEntry] = field(default_factory=list)
    roots: int = 0

    def tell(self, kind: str, run: str, at: float, **fields: Any) -> Story:
        """Add an entry about a run; what stands in all its entries is taken from its start."""
        first = next((entry for entry in self.entries if entry.run_id == run), None)
        known = {"root_id": first.root_id, "id": first.id, "key": first.key} if first else {}
        cursor = f"{int(T0 * 1000 + at)}-{len(self.entries)}"
        named: dict[str, Any] = {**known, **fields}
        self.entries.append(JournalEntry(kind, run, time=T0 + at / 1000, cursor=cursor, **named))
        return self

    def start(self, id: str = "msg", ms: float = 0.0, *, key: str = "", flow: str = "pipe", **detail: Any) -> str:
        """Begin a tree."""
        self.roots += 1
        run = timed_id(T0 + ms / 1000, self.roots)
        self.tell("start", run, ms, root_id=run, id=id, key=key, flow=flow, detail=detail)
        return run

    def child(self, parent: str, step: int, ordinal: int | str, id: str, ms: float, **detail: Any) -> str:
        """Begin a child of a run."""
        first = next(entry for entry in self.entries if entry.run_id == parent)
        run, cause = child_id(parent, step, ordinal), f"{parent}/{step}"
        named = {"root_id": first.root_id, "id": id, "key": first.key, "flow": "event"}
        self.tell("start", run, ms, **named, detail={"cause": cause, **detail})
        return run

    def step(
        self, run: str, step: int, handler: str, ms: float, outcome: str = "next", *, took: float = 1.0,
        reason: str = "", attempt: int = 1, **detail: Any,
    ) -> Story:  # fmt: skip
        """End a try of a step at `ms`, after `took` milliseconds."""
        named: dict[str, Any] = {"outcome": outcome, "reason": reason, "attempt": attempt}
        return self.tell("step", run, ms, step=step, handler=handler, ms=took, detail=detail, **named)

    def effect(self, run: str, step: int, key: str, ms: float, outcome: str = "done", **detail: Any) -> Story:
        """End a recorded call at `ms`."""
        took = detail.pop("took", 1.0)
        return self.tell("effect", run, ms, step=step, handler="a.b", outcome=outcome, ms=took,
                         detail={"effect": key, **detail})  # fmt: skip

    def end(self, run: str, ms: float, outcome: str = "done", reason: str = "") -> Story:
        """End a run."""
        return self.tell("end", run, ms, outcome=outcome, reason=reason)


def answered() -> tuple[Story, str]:
    """Return the story of a message that waited, was tried twice, paid for a model call once, and was answered."""
    story = Story()
    run = story.start(key="console:console:group-7")
    model: dict[str, Any] = {
        "kind": "model",
        "model": "gpt-5-mini",
        "tokens_in": 812,
        "tokens_out": 40,
        "cost": 0.00042,
    }
    story.step(run, 0, "heartflow.filter_message", 415, took=3, queued=12.0, box='{"j":{"message_id":"m-1"}}')
    story.effect(run, 1, "reply", 1310, took=880, **model)
    story.step(run, 1, "heartflow.think", 1340, "retry", took=920, reason="TimeoutError: the store was slow")
    story.effect(run, 1, "reply", 2346, "replayed", took=0.1, **model)
    story.step(run, 1, "heartflow.think", 2362, "stop", took=18, attempt=2, queued=3.0)
    story.end(run, 2362, "done")
    send = story.child(run, 1, 0, "msg.send, dest=1.console.group-7", 2362)
    story.step(send, 0, "console.deliver", 2390, took=22)
    story.effect(send, 0, "deliver", 2389, took=20, kind="send")
    story.end(send, 2390)
    update = story.child(run, 1, 1, "memory.update", 2362)
    story.step(
        update,
        0,
        "memory.remember",
        2471,
        "failed",
        took=80,
        reason="ValueError: no topic in what was said, so nothing can be kept",
    )
    story.end(update, 2471, "failed", "ValueError: no topic").tell("dead", update, 2471, reason="ValueError: no topic")
    return story, run
