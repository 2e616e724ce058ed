"""Runs recorded run trees again with today's code, step by step and beside their record (DESIGN §5).

Today's plan and handlers run, with the Boxes today's handlers hand on; what they read, call and draw by chance comes
from the record of the same handler's try. Events from outside, such as a cancellation or a time limit, happen again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from lumia.dead import RETRY
from lumia.errors import StoreError
from lumia.flow import NEVER, Deferred
from lumia.held import HANDLER
from lumia.ids import child_id
from lumia.journal import DEFERRED, JournalEntry
from lumia.ports import Claim, Commit, RunRequest
from lumia.replay import compare
from lumia.replay.difference import DECISION, OUTPUT, RECORD, Difference, TreeReplay, Usage
from lumia.replay.guard import WRITE, alone, in_scratch
from lumia.replay.records import RecordedRun, RecordedTree, is_outside, numbered, readable, unusable
from lumia.replay.stage import OfflinePlayer, PinnedClock, StageTransport, nothing, staged
from lumia.routes import Plan, RouteTable
from lumia.runtime import Runtime

OVERDUE = 1 << 30
"""Tries of a claim that make the executor end a step without running its handler."""
UNREPLAYABLE = "unreplayable"


class Replayer:
    """Replays trees with the handlers of `bot` as `table` routes them; a context manager, since it guards the process.

    The bot's transport, clock and players are not touched; nothing is written or sent anywhere.
    """

    def __init__(self, bot: Runtime, table: RouteTable) -> None:
        self.clock = PinnedClock()
        self.stage = StageTransport(replace(bot.limits, fuse=True, batch=1, max_losses=OVERDUE), table)
        self.bot = staged(bot, self.stage, self.clock)
        self.bot.use_routes(table)

    @contextmanager
    def ready(self) -> Iterator[Replayer]:
        """Make the stage the active bot of this block, which reaches nothing outside."""
        try:
            with alone() as self.refused, in_scratch(), self.bot.activated():
                yield self
        finally:
            self.bot.close_loops()

    def replay(self, tree: RecordedTree) -> TreeReplay:
        """Replay one tree."""
        why = unusable(tree, self.bot.secret)
        root = tree.runs.get(tree.root_id)
        done = TreeReplay(tree.root_id, root.id if root is not None else "", skipped=why)
        if why or root is None:
            return done
        plan = self._plan(root)
        if plan.steps and not root.box and not (root.is_open and not root.tries):
            done.skipped = readable(root.box, self.bot.secret)
            return done
        todo = deque([_again(root, plan)])
        while todo:
            request = todo.popleft()
            scene = Scene(self, tree, request, done)
            self._play(scene)
            todo += scene.children
        return done

    def replay_all(self, trees: Iterable[RecordedTree]) -> Iterator[TreeReplay]:
        """Replay trees, one after the other."""
        with self.ready():
            for tree in trees:
                yield self.replay(tree)

    def take_refused(self) -> list[str]:
        """Return what the running step tried to reach outside."""
        found = list(self.refused)
        self.refused.clear()
        return found

    def _plan(self, root: RecordedRun) -> Plan:
        plan = self.bot.routes.plan(root.flow, root.id)
        first = root.tries[min(root.tries)][-1].handler if root.tries else ""
        index = next((number for number, step in enumerate(plan.steps) if step.handler == first), None)
        if index is None or not root.cause.startswith(RETRY):
            return plan
        # A dead letter that is retried begins at the step that had failed; an event has gone on without it.
        left = plan.steps[index:]
        return Plan.of(left if left[0].kind in ("pipe", "interceptor") else left[:1])

    def _play(self, scene: Scene) -> None:
        self.stage.scene = scene
        claim = scene.first()
        if claim is not None:
            self.bot.executor.process(claim)
        scene.end()


class Scene:
    """One run in replay. children: the runs of its tree that are to be replayed after it."""

    def __init__(self, replayer: Replayer, tree: RecordedTree, request: RunRequest, done: TreeReplay) -> None:
        self._replayer, self._tree, self._request, self._done = replayer, tree, request, done
        self._run = tree.runs[request.run_id]
        self._indexes = _matched(request.plan, self._run)
        self._player: OfflinePlayer | None = None
        self._played: dict[int, str] = {}
        self._parted = False
        self.children: list[RunRequest] = []
        done.runs += 1

    # --- what comes next

    def first(self) -> Claim | None:
        """Return the claim of the first step, None for a run that had or has no steps."""
        if not self._request.plan.steps or (self._run.is_open and not self._run.tries):
            return None
        attempts = self._tries(0)
        attempt = attempts[0].attempt if attempts else self._request.attempt + 1
        return self._claim(0, attempt, self._request.box)

    def _claim(self, step: int, attempt: int, box: str) -> Claim:
        request = self._request
        entry = self._entry(step, attempt)
        self._replayer.clock.moment = _began(entry) if entry is not None else self._replayer.clock.moment
        before = self._tries(step).index(entry) if entry is not None else 0
        lost = max(0, attempt - 1 - before - (request.attempt if step == 0 else 0))
        return Claim(
            request.run_id, step, 1, attempt, request.flow, request.id, request.key, request.root_id, request.cause,
            request.priority, request.plan, box, retry_of=request.retry_of, overdue=OVERDUE * is_outside(entry),
            losses=lost, deferred=self._deferred(step, entry),
        )  # fmt: skip

    def _deferred(self, step: int, entry: JournalEntry | None) -> Deferred:
        """Return how a step had been put off before the try that `entry` tells of."""
        found = self._request.deferred if step == 0 else NEVER
        for one in self._tries(step):
            if one is entry:
                break
            wait = one.detail.get(DEFERRED)
            found = found.more(float(wait)) if isinstance(wait, (int, float)) else found
        return found

    def _tries(self, step: int) -> list[JournalEntry]:
        index = self._indexes.get(step)
        return self._run.tries[index] if index is not None else []

    def _entry(self, step: int, attempt: int) -> JournalEntry | None:
        return next((entry for entry in self._tries(step) if entry.attempt == attempt), None)

    def _follow(self, claim: Claim, commit: Commit, entry: JournalEntry | None) -> Claim | None:
        box = commit.box if commit.box is not None else claim.box
        again = commit.action == "retry" or (is_outside(entry) and entry is not None and entry.outcome == "retry")
        if again:
            later = next((one for one in self._tries(claim.step) if one.attempt > claim.attempt), None)
            return None if later is None else self._claim(claim.step, later.attempt, claim.box)
        if commit.action != "next" or self._was_left(commit.index):
            return None
        tries = self._tries(commit.index)
        return self._claim(commit.index, tries[0].attempt if tries else 1, box)

    def _was_left(self, step: int) -> bool:
        """Tell whether the recorded run was cancelled, or is unfinished, before this step."""
        return self._run.is_open and not any(place >= step for place in self._indexes)

    # --- what a step came to

    def player(self, claim: Claim) -> OfflinePlayer:
        """Return what answers the step of a claim."""
        entry = self._entry(claim.step, claim.attempt)
        recording = nothing(claim, claim.run_id) if entry is None else self._tree.recording(entry)
        self._player = OfflinePlayer(recording)
        return self._player

    def commit(self, claim: Claim, commit: Commit) -> Claim | None:
        """Compare what a step came to with its record; returns what follows."""
        entry = self._entry(claim.step, claim.attempt)
        _refuse_as_then(entry, commit)
        self._done.steps += 1
        self._played[claim.step] = commit.record.handler
        if is_outside(entry) or self._service_failed(entry, commit):
            self._adopt(claim, entry)
            return self._follow(claim, commit, entry)
        if not self._compare(claim, commit, entry):
            return None
        self._start_children(claim, commit)
        return self._follow(claim, commit, entry)

    def _compare(self, claim: Claim, commit: Commit, entry: JournalEntry | None) -> bool:
        """Note the differences; tells whether the run can be followed further."""
        player, done = self._player, self._done
        assert player is not None
        done.replayed += Usage.of(commit.entry.detail)
        done.recorded += Usage.of(entry.detail) if entry is not None else Usage()
        refused = self._replayer.take_refused()
        for miss in player.misses:
            self._note(claim, commit, *compare.missed(miss))
        for what in refused:
            why = "writes nothing" if what.startswith(WRITE) else "reaches nothing outside"
            self._note(claim, commit, RECORD, what, None, f"refused: a replay {why}")
        if (player.lacks or refused) and commit.record.outcome in ("failed", "retry"):
            self._parted = True
            self._note(claim, commit, DECISION, "outcome", entry.outcome if entry else None, UNREPLAYABLE)
            return False
        if entry is not None:
            self._beside(claim, commit, entry)
        return True

    def _beside(self, claim: Claim, commit: Commit, entry: JournalEntry) -> None:
        assert self._player is not None
        index = entry.step or 0
        for kind, field, then, now in compare.Step(self._tree, self._run, index, entry, commit).differences():
            self._parted = self._parted or (kind == DECISION and field == "outcome")
            self._note(claim, commit, kind, field, then, now)
        for miss in self._player.leftovers():
            if miss.kind.startswith("effect"):
                self._note(claim, commit, *compare.no_longer(miss))

    def _note(self, claim: Claim, commit: Commit, kind: str, field: str, then: object, now: object) -> None:
        inexact = self._tree.is_redacted or (self._player is not None and bool(self._player.inexact))
        handler = commit.record.handler
        index = self._indexes.get(claim.step, claim.step)
        self._done.differences.append(
            Difference(kind, claim.run_id, claim.id, index, handler, claim.attempt, field, then, now, inexact)
        )

    def _start_children(self, claim: Claim, commit: Commit) -> None:
        """Have the children replayed that were started then, too; an ordinal names the same child now and then."""
        index = self._indexes.get(claim.step)
        if index is None:
            return
        starts = "starts" in commit.entry.detail.get("gave", {})
        for number, request in enumerate(commit.children):
            run_id = child_id(claim.run_id, index, number if starts else "retry")
            self._replay_child(replace(request, run_id=run_id))

    def _replay_child(self, request: RunRequest) -> None:
        child = self._tree.runs.get(request.run_id)
        if child is None or not request.attached:
            return  # detached, a duplicate, or new: there is nothing of it in this tree
        if child.handlers == [HANDLER]:
            return  # a send that was held when it was recorded
        if request.arc:
            self._remark(f"run {child.run_id} ({child.id}): not replayed, its Box is a live resource")
        else:
            self.children.append(request)

    def _service_failed(self, entry: JournalEntry | None, commit: Commit) -> bool:
        """Tell whether a service raised then: of its answers only those that came are recorded."""
        failed = ("failed", "retry")
        if entry is None or self._player is None or entry.outcome not in failed or commit.record.outcome not in failed:
            return False
        lacks = self._player.lacks
        return bool(lacks) and not any(miss.kind.startswith("effect") for miss in lacks)

    def _adopt(self, claim: Claim, entry: JournalEntry | None) -> None:
        """Take over what followed a try that ended by an event from outside."""
        assert entry is not None
        self._remark(f"run {claim.run_id}: {entry.handler} is not run again, it ended from outside: {entry.reason}")
        child = self._tree.runs.get(child_id(claim.run_id, entry.step or 0, "retry"))
        if child is not None:
            step = Plan.of([claim.plan.steps[claim.step]])
            tries = max(1, child.tries[min(child.tries)][0].attempt - 1) if child.tries else 1
            self.children.append(replace(_again(child, step), box=claim.box, attempt=tries, retry_of=claim.ledger))

    # --- the run as a whole

    def end(self) -> None:
        """Note what differs in the run's way through its plan."""
        run = self._run
        then, now = run.handlers, list(self._played.values())
        if then != now and not (run.is_open and self._parted):
            field = "path" if self._parted else "plan"
            self._whole(DECISION, field, then, now)
        reached = {self._indexes.get(step) for step in self._played}
        for index in run.tries:
            if index not in reached:
                for child in self._tree.caused_by(run.run_id, index):
                    self._whole(OUTPUT, "start", compare.started(child), None)
        if run.redacted:
            self._remark(
                f"run {run.run_id}: secrets were taken out of its Box by the export; what hangs on them differs"
            )
        if run.lost:
            self._remark(f"run {run.run_id}: {_lost(run.lost)}")
        if run.is_open:
            state = f"was cancelled: {run.reason}" if run.ended else "had not ended"
            self._remark(f"run {run.run_id} {state}; it is replayed as far as it went")

    def _whole(self, kind: str, field: str, then: object, now: object) -> None:
        run = self._run
        self._done.differences.append(Difference(kind, run.run_id, run.id, None, "", 0, field, then, now))

    def _remark(self, text: str) -> None:
        self._done.notes.append(text)


def _again(run: RecordedRun, plan: Plan) -> RunRequest:
    """Return the request a recorded run began with."""
    return RunRequest(
        run.run_id, run.flow, run.id, plan, run.box, key=run.key, cause=run.cause, root_id=run.root_id
    )  # fmt: skip


def _matched(plan: Plan, run: RecordedRun) -> dict[int, int]:
    """Return plan index → recorded index of the same handler; one that runs twice is matched in order."""
    left = numbered(run.tries)
    found: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        place = next((one for one in left if one[0] == step.handler), None)
        if place is not None:
            left.remove(place)
            found[number] = place[1]
    return found


def _lost(handlers: list[str]) -> str:
    tries = "1 try" if len(handlers) == 1 else f"{len(handlers)} tries"
    return f"passed over, since it ended without a commit: {tries} of {', '.join(dict.fromkeys(handlers))}"


def _began(entry: JournalEntry) -> float:
    return entry.time - entry.ms / 1000


def _refuse_as_then(entry: JournalEntry | None, commit: Commit) -> None:
    """Raise the `StoreError` of a commit whose writes the store refused then: a replay has no store to refuse them."""
    if entry is None or not commit.store or entry.outcome not in ("failed", "retry"):
        return
    name, _, message = entry.reason.partition(": ")
    if name == "StoreError":
        raise StoreError(message)
