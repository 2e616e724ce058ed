"""Compares what a replayed step asks for with what the recorded one came to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lumia.history import box_of
from lumia.ids import child_id
from lumia.journal import JournalEntry
from lumia.outputs import start_digest, write_digest
from lumia.ports import Commit, RunRequest, StoreOp
from lumia.recording import Missed
from lumia.redaction import cleaned_error
from lumia.replay.difference import COST, DECISION, OUTPUT, RECORD, Difference
from lumia.replay.records import RecordedRun, RecordedTree
from lumia.replay.stage import is_other_call

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
FIGURES = ("tokens_in", "tokens_out", "cost", "unpriced")
NOT_NOTES = frozenset(
    {"reads", "hidden", "trace", "cause", "gave", "box", "queued", "late", "lost", "hold", "redacted"}
)
"""Details of a step's entry that are no notes of its handler and no figures: of the record, or of circumstances."""

Found = Iterator[tuple[str, str, Any, Any]]
"""(kind, field, recorded, replayed)"""


class Step:
    """A replayed try beside its recorded one."""

    def __init__(self, tree: RecordedTree, run: RecordedRun, index: int, entry: JournalEntry, commit: Commit) -> None:
        self._tree, self._run, self._index, self._entry, self._commit = tree, run, index, entry, commit

    def differences(self) -> Found:
        """Yield what differs in decision, notes, cost and output."""
        if self._decision_differs():
            yield from self._decision()
        yield from self._notes()
        yield from self._outputs()

    def _decision_differs(self) -> bool:
        entry, record = self._entry, self._commit.record
        return (
            entry.outcome != record.outcome
            or (entry.reason != record.reason and lasting(entry.reason) != lasting(record.reason))
            or self._is_dead() != (self._commit.dead is not None)
        )

    def _is_dead(self) -> bool:
        return self._index in self._run.dead and self._entry is self._run.tries[self._index][-1]

    def _decision(self) -> Found:
        entry, record = self._entry, self._commit.record
        if entry.outcome != record.outcome:
            yield DECISION, "outcome", entry.outcome, record.outcome
        if lasting(entry.reason) != lasting(record.reason):
            yield DECISION, "reason", entry.reason, record.reason
        if self._is_dead() != (self._commit.dead is not None):
            yield DECISION, "dead letter", self._is_dead(), self._commit.dead is not None

    def _notes(self) -> Found:
        then, now = _noted(self._entry.detail), _noted(self._commit.entry.detail)
        if then == now:
            return
        for name in sorted({*then, *now}):
            nothing = 0 if name in FIGURES else None  # a figure that is absent is one of nothing
            if then.get(name, nothing) != now.get(name, nothing):
                kind, field = (COST, name) if name in FIGURES else (OUTPUT, f"note {name}")
                yield kind, field, then.get(name), now.get(name)

    def _outputs(self) -> Found:
        then, now = self._entry.detail.get("gave", {}), self._commit.entry.detail.get("gave", {})
        if then == now:
            return
        if then.get("box") != now.get("box"):
            yield OUTPUT, "box", then.get("box"), shown(self._commit.box) if self._commit.box is not None else None
        yield from _writes(then.get("store", ()), self._commit.store)
        if then.get("starts") != now.get("starts"):
            yield from self._starts(then.get("starts", ()))

    def _starts(self, then: Sequence[str]) -> Found:
        now = self._commit.children if "starts" in self._commit.entry.detail.get("gave", {}) else ()
        for number in range(max(len(then), len(now))):
            request = now[number] if number < len(now) else None
            digest = then[number] if number < len(then) else None
            if request is not None and digest == start_digest(request):
                continue
            child = self._tree.runs.get(child_id(self._run.run_id, self._index, number)) if digest else None
            if child is not None and request is not None:
                yield from _started(f"start[{number}]", child, request)
            else:
                yield OUTPUT, f"start[{number}]", started(child) or digest, request and requested(request)


def _writes(then: Sequence[str], now: Sequence[StoreOp]) -> Found:
    for number in range(max(len(then), len(now))):
        digest = then[number] if number < len(then) else None
        op = now[number] if number < len(now) else None
        if op is None or digest != write_digest(op):
            yield OUTPUT, f"store[{number}]", digest, op and written(op)


def _started(place: str, child: RecordedRun, request: RunRequest) -> Found:
    """Yield what differs between a recorded child and the one started now."""
    found = False
    for name in ("flow", "id", "key"):
        if getattr(child, name) != getattr(request, name):
            found = True
            yield OUTPUT, f"{place}.{name}", getattr(child, name), getattr(request, name)
    if child.box and child.box != request.box:
        for field, then, now in parted(place, _read(child.box), _read(request.box)):
            found = True
            yield OUTPUT, field, then, now
    if not found:  # its delay, deduplication or attachment, which the journal doesn't spell out
        yield OUTPUT, f"{place} (how it is started)", started(child), requested(request)


def parted(place: str, then: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, recorded, replayed) of every leaf that differs between two JSON values."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in sorted({*then, *now}):
            if then.get(name) != now.get(name) or (name in then) != (name in now):
                yield from parted(f"{place}.{name}", then.get(name), now.get(name))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from parted(f"{place}[{number}]", one, other)
    elif then != now or type(then) is not type(now):
        yield place, then, now


def missed(miss: Missed) -> tuple[str, str, Any, Any]:
    """Return the difference that a miss is."""
    place = f"{miss.kind} {miss.name}".strip()
    return (OUTPUT, place, "called", miss.why) if is_other_call(miss) else (RECORD, place, None, miss.why)


def no_longer(miss: Missed) -> tuple[str, str, Any, Any]:
    """Return the difference that a recorded call is which today's code doesn't make."""
    return OUTPUT, f"{miss.kind} {miss.name}", "called", None


def lasting(reason: str) -> str:
    """Return a reason without addresses of objects, which differ from process to process, and without secrets.

    A recorded one may hold secrets that are taken out of it by now.
    """
    return _ADDRESS.sub("0x…", cleaned_error(reason, str))


def shown(wire: str) -> Any:
    """Return a Box's content for a reader; with its meta when it has any."""
    packed = _read(wire)
    return packed["content"] if list(packed) == ["content"] else packed


def _read(wire: str) -> dict[str, Any]:
    """Return {"content", "meta"?} of a Box's wire text; dill content is told by its type."""
    try:
        packed = json.loads(wire)
    except ValueError:
        return {"content": wire}
    content = packed["j"] if "j" in packed else f"<{packed.get('t', 'dill')}>"
    return {"content": content, **({"meta": packed["m"]} if packed.get("m") else {})}


def requested(request: RunRequest) -> dict[str, Any]:
    """Return a started run for a reader."""
    extra = {"key": request.key, "delay": request.delay, "dedup": request.dedup, "detached": not request.attached}
    return {"id": request.id, **_read(request.box), **{name: value for name, value in extra.items() if value}}


def started(child: RecordedRun | None) -> dict[str, Any] | None:
    """Return a recorded child for a reader."""
    return None if child is None else {"id": child.id, **(_read(child.box) if child.box else {})}


def written(op: StoreOp) -> str:
    """Return a store write for a reader."""
    field = f"[{op.field}]" if op.field else ""
    return " ".join(filter(None, (op.op, op.key + field, op.value, f"ttl={op.ttl:g}" if op.ttl else "")))


def _noted(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if name not in NOT_NOTES}


__all__ = ["Difference", "Step", "box_of", "lasting", "missed", "no_longer", "parted", "shown", "started"]
