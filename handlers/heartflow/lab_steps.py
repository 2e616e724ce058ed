"""What the trace tells of each message of a lab run: decision, layer, reason, figures. Nothing is decided here.

A message is engaged when its run passed perception (L1): a step of layer `L1` that ended with `next`. A chain without
such a layer engages when it comes to its end. The layer of a step is its annotation `layer`, else that of its handler.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import lumia

from .lab_log import Entry
from .lab_world import Call, World

ENGAGE, SILENT = "engage", "silent"
LAYERS: Mapping[str, str] = {
    "heartflow.filter_message": "L0",
    "heartflow.perceive": "L1",
    "heartflow.plan": "L2",
    "heartflow.think": "L3",
    "heartflow.respond": "L3",
    "heartflow.polish": "polish",
    "heartflow.settle": "settle",
    "heartflow.hear_own": "settle",
    "heartflow.compress": "compress",
}
ORDER = ("L0", "L1", "L2", "L3", "polish", "settle", "compress")
PERCEPTION = "L1"
NOTED = (
    "similarity",
    "floor",
    "score",
    "threshold",
    "forced",
    "route",
    "tool",
    "budget",
    "role",
    "model",
    "memory",
    "joined",
    "degraded",
)
"""Notes of a step that a report shows."""
_FREE = frozenset({"replayed", "held"})


@dataclass
class Step:
    """One committed try of a handler in a message's tree."""

    layer: str
    handler: str
    outcome: str
    reason: str = ""
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Cost:
    """What model calls used. cost: US dollars; unpriced: calls whose price nobody knows; main: those of role main."""

    calls: int = 0
    main: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """Return the tokens in both directions."""
        return self.tokens_in + self.tokens_out

    def add(self, other: Cost) -> None:
        """Add what others used."""
        for name, value in asdict(other).items():
            setattr(self, name, round(getattr(self, name) + value, 9))


@dataclass
class Heard:
    """What became of one message. decision: `engage` or `silent`; layer, reason: where and why it was decided.

    replies: what the bot sent, in order. seconds: from the message to the end of its run in the log's time. failed: the
    run ended in a dead letter.
    """

    entry: Entry
    run_id: str
    decision: str = SILENT
    layer: str = ""
    reason: str = ""
    replies: list[str] = field(default_factory=list)
    seconds: float = 0.0
    failed: bool = False
    steps: list[Step] = field(default_factory=list)
    used: dict[str, Cost] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Tell whether the label says otherwise."""
        return bool(self.entry.label) and self.entry.label != self.decision

    @property
    def cost(self) -> Cost:
        """Return what all its layers used."""
        return total(self.used.values())

    def note(self, name: str) -> Any:
        """Return the first note of this name among its steps, None when there is none."""
        return next((step.notes[name] for step in self.steps if name in step.notes), None)


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum of `costs`."""
    found = Cost()
    for cost in costs:
        found.add(cost)
    return found


def heard(world: World) -> tuple[list[Heard], dict[str, Cost]]:
    """Return what became of each message, in order, and what was used beside them (compression), by layer."""
    trees: dict[str, list[Any]] = {}
    for entry in world.entries:
        trees.setdefault(entry.root_id or entry.run_id, []).append(entry)
    calls = _by_step(world.calls)
    found = [_heard(run_id, entry, trees.get(run_id, []), calls) for run_id, entry in world.runs.items()]
    for one in found:
        if one.run_id in world.refused:
            one.layer, one.reason, one.failed = "start", f"not accepted: {world.refused[one.run_id]}", True
    beside: dict[str, Cost] = {}
    for root, entries in trees.items():
        if root not in world.runs:
            for layer, cost in _used(entries, calls).items():
                beside.setdefault(layer, Cost()).add(cost)
    return found, beside


def failures(world: World) -> list[str]:
    """Return what failed for good beside the messages' runs, such as a compression: handler and reason of each."""
    dead = (told for told in world.entries if told.kind == "dead" and not told.outcome)
    return [f"{told.handler}: {told.reason}" for told in dead if (told.root_id or told.run_id) not in world.runs]


def layer_of(entry: Any) -> str:
    """Return the layer of a journal entry: its note, else that of its handler, else the handler's plugin."""
    noted = entry.detail.get("layer")
    return str(noted) if noted else LAYERS.get(entry.handler, entry.handler.partition(".")[0])


def _heard(run_id: str, entry: Entry, entries: Sequence[Any], calls: Mapping[tuple[str, int], list[Call]]) -> Heard:
    one = Heard(entry, run_id, used=_used(entries, calls), replies=list(_replies(entries)))
    one.steps = [_step(told) for told in entries if told.kind == "step"]
    own = [_step(told) for told in entries if told.kind == "step" and told.run_id == run_id]
    end = next((told for told in reversed(entries) if told.kind == "end" and told.run_id == run_id), None)
    one.seconds = round(max(0.0, end.time - entry.time), 3) if end is not None else 0.0
    one.failed = any(told.kind == "dead" for told in entries)
    _decide(one, own, end)
    return one


def _decide(one: Heard, own: Sequence[Step], end: Any) -> None:
    """Read decision, layer and reason off the steps of a message's own run."""
    last = own[-1] if own else None
    perceived = [step for step in own if step.layer == PERCEPTION]
    ended = end.outcome if end is not None else ""
    if perceived:
        engaged = any(step.outcome == "next" for step in perceived)
    else:
        engaged = ended == "done" and bool(own)
    one.decision = ENGAGE if engaged else SILENT
    if last is None or end is None:
        one.layer, one.reason = "", (end.reason if end is not None else "") or "its run has not ended"
    elif ended != "done" or not engaged:
        one.layer, one.reason = last.layer, end.reason or last.reason or ended
    else:
        decided = (perceived or own)[-1]
        one.layer, one.reason = decided.layer, _why(decided)


def _why(step: Step) -> str:
    """Return why a step let a message pass, from what it noted."""
    notes = step.notes
    if notes.get("forced"):
        return str(notes.get("reason") or "addressed to the bot")
    if isinstance(notes.get("score"), (int, float)):
        over = f" over {notes['threshold']:.2f}" if isinstance(notes.get("threshold"), (int, float)) else ""
        said = f": {notes['reason']}" if notes.get("reason") else ""
        return f"score {notes['score']:.2f}{over}{said}"
    return str(notes.get("reason") or step.reason or "passed")


def _step(told: Any) -> Step:
    notes = {
        name: told.detail[name] for name in (*NOTED, "reason") if told.detail.get(name) not in (None, "", [], False)
    }
    return Step(layer_of(told), told.handler, told.outcome, told.reason, notes)


def _replies(entries: Sequence[Any]) -> Iterator[str]:
    """Yield the texts of the sends in a tree; a send is known by its id, its Box by the first entry that has it."""
    sends = {told.run_id: "" for told in entries if told.kind == "start" and told.id.startswith("msg.send")}
    for told in entries:
        if told.run_id in sends and not sends[told.run_id] and isinstance(told.detail.get("box"), str):
            sends[told.run_id] = told.detail["box"]
    for wire in sends.values():
        if wire.startswith('{"j":'):
            yield lumia.payloads.text_of(json.loads(wire)["j"])


def _by_step(calls: Iterable[Call]) -> dict[tuple[str, int], list[Call]]:
    found: dict[tuple[str, int], list[Call]] = {}
    for call in calls:
        found.setdefault((call.run_id, call.step), []).append(call)
    return found


def _used(entries: Sequence[Any], calls: Mapping[tuple[str, int], list[Call]]) -> dict[str, Cost]:
    """Return what the recorded calls of a tree used, by layer; the layer of a call is that of its step."""
    layers = {(told.run_id, told.step): layer_of(told) for told in entries if told.kind == "step"}
    found: dict[str, Cost] = {}
    asked: dict[tuple[str, int], int] = {}
    for told in entries:
        if told.kind != "effect" or told.detail.get("kind") not in ("model", "embed"):
            continue
        place = (told.run_id, told.step)
        cost = found.setdefault(layers.get(place) or layer_of(told), Cost())
        chat, made = told.detail["kind"] == "model", told.outcome not in _FREE
        if chat:
            at = asked[place] = asked.get(place, -1) + 1
            role = _role(calls.get(place, []), at)
            cost.calls += made
            cost.main += made and role == "main"
        if made:
            _count(cost, told.detail)
    return found


def _role(calls: Sequence[Call], at: int) -> str:
    return calls[at].role if at < len(calls) else ""


def _count(cost: Cost, detail: Mapping[str, Any]) -> None:
    cost.tokens_in += int(detail.get("tokens_in") or 0)
    cost.tokens_out += int(detail.get("tokens_out") or 0)
    price = detail.get("cost")
    if isinstance(price, (int, float)):
        cost.cost = round(cost.cost + price, 9)
    elif detail.get("tokens_in"):
        cost.unpriced += 1
