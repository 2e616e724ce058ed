"""Executes claimed steps: finds the handler, runs it, and commits what follows (DESIGN §5).

The loop is the same for every transport; what follows a step is decided by `lumia.flow` alone.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from lumia.box import Box
from lumia.context import StepContext, executing
from lumia.errors import BoxError, FlowError, LumiaError, StaleClaimError, StoreError
from lumia.flow import Decision, Raised, Ran, Skipped, after
from lumia.ids import child_id
from lumia.journal import JournalEntry
from lumia.ports import Claim, Commit, DeadLetter, RunRequest, StepRecord
from lumia.routes import Plan, PlanStep

if TYPE_CHECKING:
    from lumia.runtime import Loaded, Runtime

MAX_REASON = 500


class StepListener:
    """Hears of every step a process executes; the Celery binding turns it into task events."""

    def started(self, claim: Claim, step: PlanStep) -> None:
        """A step begins."""

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        """A step was committed; error is its traceback when the handler raised."""


@dataclass
class _Result:
    """What running the handler came to."""

    result: Ran | Raised | Skipped
    context: StepContext
    box: Box[Any] | None = None
    changed: bool = False
    trace: str = ""


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
            claim = self._step(claim, heard, batch.goes_on())

    def process_inline(self, claim: Claim, box: Box[Any]) -> None:
        """Execute a run whose Box is a live resource: here, now, and with retries in memory only."""
        current: Claim | None = claim
        while current is not None:
            current = self._step(current, StepListener(), batch=False, arc=box)

    def _step(self, claim: Claim, listener: StepListener, batch: bool, arc: Box[Any] | None = None) -> Claim | None:
        step = claim.plan.steps[claim.step]
        listener.started(claim, step)
        began = self._bot.clock.monotonic()
        done = self._run(claim, step, arc)
        seconds = self._bot.clock.monotonic() - began
        try:
            follower = self._commit(claim, step, done, seconds, batch)
        except StaleClaimError as error:
            self._bot.log.warning("discarded a stale result: %s", error)
            listener.ended(claim, step, "stale", str(error), seconds)
            return None
        listener.ended(claim, step, _outcome(done.result), done.trace, seconds)
        for run_id, box in done.context.arcs.items():
            self._bot.run_inline(run_id, box)
        return follower

    def _run(self, claim: Claim, step: PlanStep, arc: Box[Any] | None) -> _Result:
        plugin = step.handler.partition(".")[0]
        context = StepContext(self._bot, claim, step, plugin)
        if claim.attempt > max(step.retry.attempts, self._bot.limits.max_attempts):
            lost = f"given up before try {claim.attempt}: every try before it hung or was lost with its worker"
            return _Result(Raised(lost, permanent=True), context, trace=lost)
        handler = self._bot.handler(step)
        if handler is None:
            return _Result(Skipped("removed"), context)
        return self._call(handler, context, arc)

    def _call(self, handler: Loaded, context: StepContext, arc: Box[Any] | None) -> _Result:
        claim = context.claim
        try:
            box = arc.clone() if arc is not None else Box.load(claim.box, self._bot.secret)
            before = deepcopy(box.meta)
            given = box.expecting(handler.expects, context.step.handler) if handler.expects is not None else box
            arguments = (claim.id, given) if handler.glob else (given,)
            with executing(context):
                returned = self._invoke(handler.fn, arguments, context)
            new = _returned(context, returned)
        except (KeyboardInterrupt, SystemExit) as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return _failed(context, FlowError(f"{context.step.handler} tried to exit the process: {error!r}"))
        except BaseException as error:  # noqa: BLE001 (whatever a plugin raises becomes a dead letter, not a dead worker)
            return _failed(context, error)
        ran = Ran(context.nexted, context.intercepted, context.reason)
        content = new if new is not None else given
        return _Result(ran, context, content, changed=new is not None or content.meta != before)

    def _invoke(self, fn: Callable[..., Any], arguments: tuple[Any, ...], context: StepContext) -> Any:
        if not inspect.iscoroutinefunction(fn):
            return fn(*arguments)
        limit = context.step.timeout or self._bot.limits.step_timeout
        here = copy_context()
        return self._bot.run_async(here.run(fn, *arguments), limit, context.step.handler)

    def _commit(self, claim: Claim, step: PlanStep, done: _Result, seconds: float, batch: bool) -> Claim | None:
        try:
            return self._bot.transport.commit(claim, self._build(claim, step, done, seconds, batch))
        except (BoxError, StoreError) as error:
            failed = _failed(done.context, error)
            done.result, done.trace, done.context.arcs = failed.result, failed.trace, {}
            return self._bot.transport.commit(claim, self._build(claim, step, done, seconds, batch))

    def _build(self, claim: Claim, step: PlanStep, done: _Result, seconds: float, batch: bool) -> Commit:
        decision = after(claim.plan, claim.step, done.result, claim.attempt)
        reason = clean(self._bot.redact(decision.reason))
        failed = isinstance(done.result, Raised)
        ms = round(seconds * 1000, 3)
        outcome = "retry" if decision.action == "retry" else decision.step
        record = StepRecord(step.handler, outcome, reason, ms, claim.attempt)
        children = () if failed else tuple(done.context.starts)
        if decision.retry_child:
            children = (_retry_child(claim, step, decision),)
        return Commit(
            decision.action, record, self._entry(claim, step, done, record), index=decision.index,
            outcome=decision.run, reason=reason, delay=decision.delay,
            box=None if failed or claim.arc else self._content(step, done), children=children,
            store=() if failed else tuple(done.context.writes),
            dead=self._dead_letter(claim, step, reason) if decision.dead else None,
            fuse=claim.arc or self._fuses(claim.plan, step, decision),
            batch=batch and not claim.arc and not failed and not step.hard,
        )  # fmt: skip

    def _content(self, step: PlanStep, done: _Result) -> str | None:
        if not done.changed or done.box is None or step.kind in ("consumer", "cron", "interceptor"):
            return None
        return done.box.dump(self._bot.secret)

    def _fuses(self, plan: Plan, step: PlanStep, decision: Decision) -> bool:
        if decision.action != "next" or not self._bot.limits.fuse or decision.dead:
            return False
        follower = plan.steps[decision.index]
        return follower.queue == step.queue and not follower.hard and not step.hard

    def _entry(self, claim: Claim, step: PlanStep, done: _Result, record: StepRecord) -> JournalEntry:
        detail = dict(done.context.notes)
        if done.trace:
            detail["trace"] = clean(self._bot.redact(done.trace), 4000)
        if claim.cause:
            detail["cause"] = claim.cause
        return JournalEntry(
            "step", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, step.handler, record.outcome,
            record.reason, ms=record.ms, attempt=claim.attempt, worker=self._bot.worker, detail=detail,
        )  # fmt: skip

    def _dead_letter(self, claim: Claim, step: PlanStep, reason: str) -> DeadLetter:
        return DeadLetter(
            claim.run_id, claim.step, step.handler, claim.id, claim.key, reason, claim.attempt, claim.box,
            self._bot.clock.now(), claim.root_id,
        )  # fmt: skip


def _returned(context: StepContext, returned: Any) -> Box[Any] | None:
    step = context.step
    if inspect.isawaitable(returned) or inspect.isgenerator(returned):
        raise FlowError(
            f"{step.handler} returned a {type(returned).__name__} nobody runs; make the handler `async def`"
        )
    if context.next_box is not None:
        return context.next_box
    if returned is None:
        return None
    if step.kind == "chain" and isinstance(returned, Box):
        return returned
    way_out = "return lumia.Box.any(value)" if step.kind == "chain" else "return nothing; content goes on by next(box)"
    raise FlowError(f"{step.handler} ({step.kind}) returned a {type(returned).__name__}; {way_out}")


def _failed(context: StepContext, error: BaseException) -> _Result:
    trace = "".join(traceback.format_exception(error))
    return _Result(Raised.of(error), context, trace=trace)


def _retry_child(claim: Claim, step: PlanStep, decision: Decision) -> RunRequest:
    alone = replace(step)
    return RunRequest(
        child_id(claim.run_id, claim.step, "retry"), claim.flow, claim.id, Plan.of([alone]), claim.box, key=claim.key,
        cause=f"{claim.run_id}/{claim.step}", parent=claim.run_id, root_id=claim.root_id, inside=bool(claim.key),
        delay=decision.delay, priority=claim.priority, attempt=claim.attempt,
        retry_of=claim.retry_of or f"{claim.run_id}/{claim.step}",
    )  # fmt: skip


def _outcome(result: Ran | Raised | Skipped) -> str:
    return "failed" if isinstance(result, Raised) else "skipped" if isinstance(result, Skipped) else "done"


def clean(text: str, limit: int = MAX_REASON) -> str:
    """Return `text` as it may stand in a record: no NUL, no lone surrogates, at most `limit` characters."""
    shown = text.replace("\x00", "␀").encode("utf-8", "replace").decode()
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def expected_type(fn: Callable[..., Any]) -> Any:
    """Return `T` when a parameter of `fn` is annotated `Box[T]`, else None."""
    try:
        hints = get_type_hints(fn)
    except (NameError, TypeError, AttributeError):
        return None
    for name, hint in hints.items():
        if name != "return" and get_origin(hint) is Box:
            return get_args(hint)[0]
    return None


class AsyncLoop:
    """One event loop per process, in a thread of its own, for every `async def` handler."""

    def __init__(self) -> None:
        import threading  # noqa: PLC0415 (only processes with async handlers need the thread)

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lumia-async", daemon=True)
        self._thread.start()

    def run(self, coroutine: Any, limit: float, handler: str) -> Any:
        """Run a coroutine to its end; cancelled after `limit` seconds with a `LumiaError` naming the handler."""
        return asyncio.run_coroutine_threadsafe(_limited(coroutine, limit, handler), self._loop).result()

    def close(self) -> None:
        """Stop the loop and join its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()


async def _limited(coroutine: Any, limit: float, handler: str) -> Any:
    try:
        async with asyncio.timeout(limit):
            return await coroutine
    except TimeoutError as error:
        raise LumiaError(f"{handler} ran longer than its {limit:g} s and was cancelled") from error
