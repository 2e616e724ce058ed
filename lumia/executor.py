"""Executes claimed steps: finds the handler, runs it, and commits what follows (DESIGN §5).

The loop is the same for every transport; what follows a step is decided by `lumia.flow` alone.
"""

from __future__ import annotations

import inspect
import threading
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from lumia.box import Box
from lumia.context import StepContext, executing
from lumia.dead import DeadLetter, Failure
from lumia.errors import BoxError, BusyLaneError, FlowError, HeldError, StaleClaimError, StoreError
from lumia.flow import NEVER, Decision, Deferred, Raised, Ran, Skipped, after
from lumia.ids import child_id
from lumia.journal import DEFERRED, NEXT_DELAY, JournalEntry, clean, described
from lumia.outputs import outputs
from lumia.ports import Claim, Commit, RunRequest, StepRecord
from lumia.redaction import cleaned, cleaned_error
from lumia.routes import Plan, PlanStep

if TYPE_CHECKING:
    from lumia.runtime import Loaded, Runtime

MAX_TRACE = 4000
MAX_HANDBACK_DELAY = 30.0
_MAX_TEXT = 1 << 18
"""Characters of a reason or traceback that are looked at for secrets."""


class StepListener:
    """Hears of every step a process executes; the Celery binding turns it into task events."""

    def started(self, claim: Claim, step: PlanStep) -> None:
        """A step begins."""

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        """A step was committed; error is its traceback when the handler raised."""

    def goes_on(self) -> bool:
        """Tell whether the process may take another run after this one, as far as this listener is concerned."""
        return True


@dataclass
class _Result:
    """What running the handler came to. tried: False when it was given up before. stale: its commit was refused."""

    result: Ran | Raised | Skipped
    context: StepContext
    box: Box[Any] | None = None
    changed: bool = False
    trace: str = ""
    tried: bool = True
    stale: bool = False

    @property
    def new_content(self) -> Box[Any] | None:
        """Return what the next handler gets instead of this step's Box, None when that goes on unchanged."""
        changes = isinstance(self.result, Ran) and self.context.step.kind in ("pipe", "chain") and self.changed
        return self.box if changes else None


@dataclass
class _Held:
    """The live resource of an inline run, or what a handler has put in its place by next(box)."""

    box: Box[Any]


class _Batch:
    """How many runs one message may bring along: bounded in number and time, and ended by a drain (DESIGN §5)."""

    def __init__(self, bot: Runtime) -> None:
        self._bot = bot
        self._runs: set[str] = set()
        self._until = bot.clock.monotonic() + bot.limits.batch_seconds

    def count(self, claim: Claim) -> None:
        """Note the run of a claim."""
        self._runs.add(claim.run_id)

    def goes_on(self) -> bool:
        """Tell whether the process may take another run after this one."""
        fresh = len(self._runs) < self._bot.limits.batch and self._bot.clock.monotonic() < self._until
        return fresh and not self._bot.draining


class Executor:
    """Runs the steps of one bot in one process."""

    def __init__(self, runtime: Runtime) -> None:
        self._bot = runtime

    def process(self, claim: Claim | None, listener: StepListener | None = None) -> None:
        """Execute `claim` and whatever follows it in this process."""
        heard = listener or StepListener()
        batch = _Batch(self._bot)
        while claim is not None:
            batch.count(claim)
            claim = self._step(claim, heard, batch)

    def process_inline(self, claim: Claim, box: Box[Any]) -> None:
        """Execute a run whose Box is a live resource: here, now, and with retries in memory only."""
        held = _Held(box)
        current: Claim | None = claim
        while current is not None:
            current = self._step(current, StepListener(), held=held)

    def _step(
        self, claim: Claim, listener: StepListener, batch: _Batch | None = None, held: _Held | None = None
    ) -> Claim | None:
        step = claim.plan.steps[claim.step]
        behind = held is None and self._bot.is_behind(step, claim.handbacks)
        if behind and claim.handbacks < self._bot.limits.handbacks:
            self.hand_back(claim, _behind(step))
            return None
        listener.started(claim, step)
        began = self._bot.clock.monotonic()
        done = self._run(claim, step, held.box if held is not None else None, behind=behind)
        seconds = self._bot.clock.monotonic() - began
        follower = self._end(claim, done, seconds, listener, batch)
        if done.stale:
            return None
        if held is not None and done.new_content is not None:
            held.box = done.new_content
        self._run_children_inline(done)
        return follower

    def fail(self, claim: Claim, error: str, seconds: float, listener: StepListener) -> None:
        """End a step that another process has executed for this one, and not survived, as failed."""
        context = StepContext(self._bot, claim, claim.plan.steps[claim.step], "")
        self._end(claim, _Result(Raised(error), context, trace=error), seconds, listener, None)

    def _end(
        self, claim: Claim, done: _Result, seconds: float, listener: StepListener, batch: _Batch | None
    ) -> Claim | None:
        step = done.context.step
        done.trace = self._shown(done.trace)
        try:
            follower = self._commit(
                claim, step, done, seconds, batch is not None and batch.goes_on() and listener.goes_on()
            )
        except StaleClaimError as error:
            self._bot.log.warning("discarded a stale result: %s", error)
            listener.ended(claim, step, "stale", str(error), seconds)
            done.stale = True
            return None
        listener.ended(claim, step, _outcome(done.result), done.trace, seconds)
        return follower

    def hand_back(self, claim: Claim, why: str) -> None:
        """Leave a step that this process can't do to another worker; that costs no try, but is counted and logged."""
        self._bot.log.warning("run %s: handed back, %s", claim.run_id, why)
        self._commit_handback(claim, min(MAX_HANDBACK_DELAY, 1.0 + claim.handbacks), free=False)

    def put_back(self, claim: Claim, delay: float) -> None:
        """Leave a step for `delay` seconds; that costs nothing and may be done as often as it takes."""
        self._commit_handback(claim, delay, free=True)

    def _commit_handback(self, claim: Claim, delay: float, *, free: bool) -> None:
        handler = claim.plan.steps[claim.step].handler
        record = StepRecord(handler, "handback", attempt=claim.attempt)
        entry = JournalEntry("step", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, handler)
        try:
            self._bot.transport.commit(claim, Commit("handback", record, entry, delay=delay, free=free))
        except StaleClaimError as error:
            self._bot.log.warning("discarded a stale result: %s", error)

    def _run_children_inline(self, done: _Result) -> None:
        arcs = done.context.arcs
        for run_id in list(arcs) if isinstance(done.result, Ran) else ():
            self._bot.run_inline(run_id, arcs.pop(run_id))

    def _run(self, claim: Claim, step: PlanStep, arc: Box[Any] | None, *, behind: bool) -> _Result:
        plugin = step.handler.partition(".")[0]
        context = StepContext(self._bot, claim, step, plugin)
        if self._bot.player is not None:
            context.player = self._bot.player(claim)
        if claim.overdue >= step.retry.attempts:
            limit = step.timeout or self._bot.limits.step_timeout
            late = (
                f"hung: not done within its {limit:g} s, tried {claim.overdue} time{'s' if claim.overdue > 1 else ''}"
            )
            return _given_up(late, context)
        if claim.losses >= self._bot.limits.max_losses:
            return _given_up(f"given up: {claim.losses} tries were lost with their workers", context)
        if behind:
            late = f"handed back {claim.handbacks} times: {_behind(step)}; restart the workers that are behind"
            return _given_up(late, context)
        handler = self._bot.handler(step)
        if handler is None:
            return _Result(Skipped("removed"), context)
        return self._call(handler, context, arc)

    def _call(self, handler: Loaded, context: StepContext, arc: Box[Any] | None) -> _Result:
        with self._bot.generations.naming(handler):
            return self._called(handler, context, arc)

    def _called(self, handler: Loaded, context: StepContext, arc: Box[Any] | None) -> _Result:
        claim = context.claim
        try:
            box = arc.clone() if arc is not None else Box.load(claim.box, self._bot.secret)
            before = deepcopy(box.meta)
            given = box.expecting(handler.expects, context.step.handler) if handler.expects is not None else box
            arguments = (claim.id, given) if handler.glob else (given,)
            with executing(context):
                returned = self._invoke(handler.fn, arguments, context)
            new = _returned(context, returned)
            content = new if new is not None else given
            changed = new is not None or _differ(content.meta, before)
        except (KeyboardInterrupt, SystemExit) as error:
            # Ctrl-C reaches the main thread only; elsewhere it is a handler that raises.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            if _is_told_to_end(error):
                raise
            text = f"{context.step.handler} tried to exit the process: {described(error)}"
            return _failed(context, FlowError(text))
        except HeldError as error:
            return _Result(Skipped(str(error)), context)
        except BaseException as error:
            return _failed(context, error)
        ran = Ran(context.nexted, context.intercepted, context.reason, context.next_delay)
        return _Result(ran, context, content, changed)

    def _invoke(self, fn: Callable[..., Any], arguments: tuple[Any, ...], context: StepContext) -> Any:
        if not inspect.iscoroutinefunction(fn):
            return fn(*arguments)
        limit = context.step.timeout or self._bot.limits.step_timeout
        return self._bot.run_async(fn(*arguments), limit, context.step.handler)

    def _commit(self, claim: Claim, step: PlanStep, done: _Result, seconds: float, batch: bool) -> Claim | None:
        try:
            return self._bot.transport.commit(claim, self._build(claim, step, done, seconds, batch))
        except (BoxError, StoreError, BusyLaneError) as error:
            failed = _failed(done.context, error)
            done.result, done.trace = failed.result, self._shown(failed.trace)
            return self._bot.transport.commit(claim, self._build(claim, step, done, seconds, batch))

    def _build(self, claim: Claim, step: PlanStep, done: _Result, seconds: float, batch: bool) -> Commit:
        decision = after(claim.plan, claim.step, _here_and_now(claim, done.result), claim.tries, claim.deferred)
        if claim.arc and decision.retry_child:  # a child would need the resource: tried again here instead
            decision = Decision("retry", decision.step, decision.reason, index=claim.step)
        failed = isinstance(done.result, Raised)
        told = decision.reason[:_MAX_TEXT]
        reason = clean(cleaned_error(told, self._bot.redact) if failed else self._bot.redact(told))
        ms = round(seconds * 1000, 3)
        outcome = "retry" if decision.action == "retry" else decision.step
        record = StepRecord(step.handler, outcome, reason, ms, claim.attempt)
        children = () if failed else tuple(done.context.starts)
        box, store = self._wire(claim, done), tuple(done.context.kept if failed else done.context.writes)
        put_off = {NEXT_DELAY: decision.next_delay} if decision.next_delay else {}
        if decision.deferred:
            put_off = {DEFERRED: decision.delay}
        entry = self._entry(claim, step, done, record, outputs(box, children, store) | put_off)
        counts = failed and done.tried and not decision.deferred
        failures = self._failures(claim, reason) if counts else claim.failures
        if decision.retry_child:
            children = (_retry_child(claim, step, decision, failures),)
        return Commit(
            decision.action, record, entry, index=decision.index,
            outcome=decision.run, reason=reason, delay=_delay(decision),
            box=box, children=children,
            store=store,
            dead=self._dead_letter(claim, decision, done, reason, failures) if decision.dead else None,
            failures=failures if decision.action == "retry" else (),
            fuse=claim.arc or (self._fuses(claim.plan, step, decision) and not done.context.arcs),
            batch=batch and not claim.arc and not failed and not step.hard and not done.context.arcs,
            release=decision.action == "retry" and step.retry.lane == "release",
            deferred=decision.deferred if decision.action == "retry" else None,
        )  # fmt: skip

    def _wire(self, claim: Claim, done: _Result) -> str | None:
        content = done.new_content
        return None if content is None or claim.arc else content.dump(self._bot.secret)

    def _fuses(self, plan: Plan, step: PlanStep, decision: Decision) -> bool:
        if decision.action != "next" or not self._bot.limits.fuse or decision.dead or self._bot.draining:
            return False
        if decision.next_delay:
            return False
        follower = plan.steps[decision.index]
        return follower.queue == step.queue and not follower.hard and not step.hard

    def _entry(
        self, claim: Claim, step: PlanStep, done: _Result, record: StepRecord, gave: dict[str, Any]
    ) -> JournalEntry:
        context = done.context
        detail = dict(cleaned(context.notes, self._bot.redact)[0]) if context.notes else {}
        if context.figures is not None:
            detail |= context.figures
        if context.reads is not None:
            detail |= context.reads.detail(self._bot.redact)
        detail |= gave
        if done.trace:
            detail["trace"] = done.trace
        if claim.cause:
            detail["cause"] = claim.cause
        if claim.stale:
            detail["stale"] = round(claim.stale, 3)
        if claim.waited:
            detail["queued"] = round(claim.waited * 1000, 3)
        return JournalEntry(
            "step", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, step.handler, record.outcome,
            record.reason, ms=record.ms, attempt=claim.attempt, worker=self._bot.worker, detail=detail,
        )  # fmt: skip

    def _shown(self, trace: str) -> str:
        """Return a traceback as journal, logs and events may show it."""
        return clean(cleaned_error(trace[-_MAX_TEXT:], self._bot.redact), MAX_TRACE, end=True)

    def _failures(self, claim: Claim, reason: str) -> tuple[Failure, ...]:
        now = round(self._bot.clock.now(), 3)
        return (*claim.failures, Failure(claim.attempt, now, self._bot.worker, reason))

    def _dead_letter(
        self, claim: Claim, decision: Decision, done: _Result, reason: str, failures: tuple[Failure, ...]
    ) -> DeadLetter:
        steps = claim.plan.steps[claim.step :]
        left = steps if decision.run == "failed" else steps[:1]  # else the run has gone on without this step
        return DeadLetter(
            claim.run_id, claim.step, steps[0].handler, claim.id, claim.key, reason, claim.attempt - (not done.tried),
            "" if claim.arc else claim.box, round(self._bot.clock.now(), 3), claim.root_id, flow=claim.flow,
            priority=claim.priority, plan=Plan.of(left).text, retry_of=claim.shared, arc=claim.arc, trace=done.trace,
            history=failures, hold=claim.hold,
        )  # fmt: skip


def _is_told_to_end(error: BaseException) -> bool:
    """Tell whether a process pool is ending this process; the step is then taken over like any lost worker's."""
    return isinstance(error, SystemExit) and isinstance(error.code, int) and error.code < 0


def _returned(context: StepContext, returned: Any) -> Box[Any] | None:
    step = context.step
    if inspect.isawaitable(returned) or inspect.isgenerator(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise FlowError(
            f"{step.handler} returned a {type(returned).__name__} nobody runs; make the handler `async def`"
        )
    if returned is None:
        return context.next_box
    if step.kind == "chain" and isinstance(returned, Box):
        return returned
    way_out = "return lumia.Box.any(value)" if step.kind == "chain" else "return nothing; content goes on by next(box)"
    raise FlowError(f"{step.handler} ({step.kind}) returned a {type(returned).__name__}; {way_out}")


def _differ(meta: Any, before: Any) -> bool:
    try:
        return bool(meta != before)
    except Exception:  # e.g. an array among the values: writing the Box will say what is wrong with it
        return True


def _given_up(why: str, context: StepContext) -> _Result:
    return _Result(Raised(why, permanent=True), context, trace=why, tried=False)


def _failed(context: StepContext, error: BaseException) -> _Result:
    trace = "".join(traceback.format_exception(error))
    return _Result(Raised.of(error), context, trace=trace)


def _here_and_now(claim: Claim, result: Ran | Raised | Skipped) -> Ran | Raised | Skipped:
    """Return a result as it counts for its claim: a live resource can't wait, so being put off is a try like any."""
    return replace(result, wait=None) if claim.arc and isinstance(result, Raised) else result


def _behind(step: PlanStep) -> str:
    return f"this worker doesn't have {step.handler} of generation {step.generation}, which the run was planned with"


def _retry_child(claim: Claim, step: PlanStep, decision: Decision, failures: tuple[Failure, ...]) -> RunRequest:
    put_off = decision.deferred
    # The lane is held for the tree, so a retry that lets go of it can't be part of that.
    released = bool(claim.key) and step.retry.lane == "release"
    return RunRequest(
        child_id(claim.run_id, claim.step, "retry"), claim.flow, claim.id, Plan.of([step]), claim.box, key=claim.key,
        cause=f"{claim.run_id}/{claim.step}", parent=claim.run_id, root_id=claim.root_id,
        inside=bool(claim.key) and not released, attached=not released, returning=released,
        delay=decision.delay, priority=claim.priority, attempt=claim.tries - bool(decision.deferred), failures=failures,
        retry_of=claim.ledger, hold=claim.hold, deferred=Deferred(0, put_off.seconds) if put_off else NEVER,
    )  # fmt: skip


def _delay(decision: Decision) -> float:
    """Return the seconds before the run itself goes on; a retry that is a run of its own has a delay of its own."""
    return decision.delay if decision.action == "retry" else decision.next_delay


def _outcome(result: Ran | Raised | Skipped) -> str:
    return "failed" if isinstance(result, Raised) else "skipped" if isinstance(result, Skipped) else "done"


def expected_type(fn: Callable[..., Any]) -> Any:
    """Return `T` when a parameter of `fn` is annotated `Box[T]`, else None."""
    try:
        hints = get_type_hints(fn)
    except Exception:  # an annotation is evaluated, so anything can go wrong; into() then checks nothing
        return None
    for name, hint in hints.items():
        if name != "return" and get_origin(hint) is Box:
            return get_args(hint)[0]
    return None
