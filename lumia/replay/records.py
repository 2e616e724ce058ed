"""Recorded runs as a replay needs them: the journal's entries put together by tree, run and try."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lumia.dead import RETRY, is_letter
from lumia.errors import BoxError
from lumia.history import box_of, position, root_of
from lumia.journal import LOST, JournalEntry
from lumia.recording import Recording

OUTSIDE = re.compile(
    r"hung: |given up: \d+ tries were lost |handed back \d+ times|"
    r"Backend(?:Unavailable|Silent|Forbidden)Error: |"
    r"LumiaError: \S+ (?:ran longer than its|did not end within|was not begun: )"
)
"""Reasons of tries that ended by an event from outside, such as a time limit: their handler is not run again."""
NOT_HERE = "its Box is not in the journal (a live resource, or from before what is recorded)"


@dataclass
class RecordedRun:
    """One run as it was. tries: the committed tries of each step, by the step's index; dead: steps given up.

    lost: the handlers of tries that ended without a commit, with their worker or since they hung. redacted: secrets
    were taken out of the Box it began with when it was exported. queue: where it began, "" for the default queue.
    """

    run_id: str
    root_id: str
    id: str = ""
    key: str = ""
    flow: str = "event"
    cause: str = ""
    box: str = ""
    begun: bool = False
    ended: bool = False
    outcome: str = ""
    reason: str = ""
    tries: dict[int, list[JournalEntry]] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    redacted: bool = False
    queue: str = ""

    @property
    def is_open(self) -> bool:
        """Tell whether it was left before its plan was through: it is cancelled, or has not ended yet."""
        return not self.ended or self.outcome == "cancelled"

    @property
    def handlers(self) -> list[str]:
        """Return the handlers that were executed, in order; one that was skipped since it was removed is left out."""
        return [self.tries[step][-1].handler for step in sorted(self.tries) if not _removed(self.tries[step][-1])]

    def add(self, entry: JournalEntry) -> None:
        """Take in one entry of the run."""
        self.id, self.key = self.id or entry.id, self.key or entry.key
        self.box = self.box or box_of(entry)
        self.redacted = self.redacted or bool(entry.detail.get("redacted"))
        self.cause = self.cause or str(entry.detail.get("cause", ""))
        if entry.kind == "start":
            self.begun, self.flow = True, entry.flow or self.flow
            self.queue = str(entry.detail.get("queue", ""))
        elif entry.kind == "end":
            self.ended, self.outcome, self.reason = True, entry.outcome, entry.reason
        elif is_letter(entry):
            self.dead.add(entry.step or 0)
        elif entry.kind == "step" and entry.outcome == LOST:
            self.lost.append(entry.handler)
        elif entry.kind == "step":
            self.tries.setdefault(entry.step or 0, []).append(entry)


@dataclass
class RecordedTree:
    """A root run with everything it caused, as far as that belongs to its tree; effects: their entries, in order."""

    root_id: str
    runs: dict[str, RecordedRun] = field(default_factory=dict)
    effects: list[JournalEntry] = field(default_factory=list)

    @property
    def root(self) -> RecordedRun:
        """Return the run it began with."""
        return self.runs[self.root_id]

    @property
    def is_redacted(self) -> bool:
        """Tell whether secrets were taken out of a Box of it."""
        return any(run.redacted for run in self.runs.values())

    @property
    def origin(self) -> str:
        """Return the run whose dead letter was retried as this tree, "" for any other tree."""
        root = self.runs.get(self.root_id)
        return root.cause.removeprefix(RETRY) if root is not None and root.cause.startswith(RETRY) else ""

    @property
    def steps(self) -> int:
        """Return how many tries were committed in it."""
        return sum(len(tries) for run in self.runs.values() for tries in run.tries.values())

    def recording(self, entry: JournalEntry) -> Recording:
        """Return what the try that ended with this step entry saw of the world."""
        return Recording.of(entry, self.effects)

    def caused_by(self, run_id: str, step: int) -> list[RecordedRun]:
        """Return the runs that a step started, its retries included, in the journal's order."""
        cause = f"{run_id}/{step}"
        return [run for run in self.runs.values() if run.cause == cause]


def recorded(entries: Iterable[JournalEntry]) -> list[RecordedTree]:
    """Return the run trees that `entries` tell of, the oldest first; each tree's entries have to be complete."""
    trees: dict[str, RecordedTree] = {}
    for entry in entries:
        if not entry.run_id:
            continue
        root = root_of(entry)
        tree = trees.get(root) or trees.setdefault(root, RecordedTree(root))
        run = tree.runs.get(entry.run_id) or tree.runs.setdefault(entry.run_id, RecordedRun(entry.run_id, root))
        run.add(entry)
        if entry.kind == "effect":
            tree.effects.append(entry)
    for tree in trees.values():
        _share_effects(tree, trees)
    return [trees[root] for root in sorted(trees)]


def _share_effects(tree: RecordedTree, trees: Mapping[str, RecordedTree]) -> None:
    """Give a retried dead letter the effects of the run it goes on from: what is done is not made again."""
    origin = tree.origin
    if origin:
        shared = next((one for one in trees.values() if origin in one.runs), None)
        tree.effects = [*(shared.effects if shared is not None else ()), *tree.effects]


def in_order(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return entries of several places in the journal's order, each once."""
    found = {(entry.cursor, entry.kind, entry.run_id, entry.step, entry.attempt): entry for entry in entries}
    return sorted(found.values(), key=position)


def unusable(tree: RecordedTree, secret: bytes) -> str:
    """Return why a tree can't be replayed at all, "" when it can."""
    root = tree.runs.get(tree.root_id)
    if root is None or not root.begun:
        return "its beginning is not in the journal"
    if not root.tries:
        if root.ended:
            return "" if root.outcome in ("done", "cancelled") else f"{root.outcome} before its first step"
        return "it has not begun yet"
    return readable(root.box, secret) or _lacking_origin(tree)


def _lacking_origin(tree: RecordedTree) -> str:
    """Return why a retried dead letter can't be replayed when the effects it went on from are not at hand."""
    here = {entry.run_id for entry in tree.effects}
    if not tree.origin or tree.origin in here or all(entry.outcome != "replayed" for entry in tree.effects):
        return ""
    return "it is a retried dead letter, and the run whose effects it goes on from is not among these"


def readable(box: str, secret: bytes) -> str:
    """Return what is wrong with a Box's wire text for this bot, "" when it can be read."""
    from lumia.box import Box

    if not box:
        return NOT_HERE
    try:
        Box.load(box, secret)
    except BoxError as error:
        return f"its Box can't be read here: {error}"
    return ""


def is_outside(entry: JournalEntry | None) -> bool:
    """Tell whether a try ended by an event from outside."""
    return entry is not None and entry.outcome in ("failed", "retry") and OUTSIDE.match(entry.reason) is not None


def numbered(tries: Mapping[int, list[JournalEntry]]) -> list[tuple[str, int]]:
    """Return (handler, index) of the executed steps, by index."""
    return [(tries[step][-1].handler, step) for step in sorted(tries)]


def _removed(entry: JournalEntry) -> bool:
    return entry.outcome == "skipped" and entry.reason == "removed"
