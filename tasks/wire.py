"""How runs, claims and commits are written for the scripts; the names are explained in docs/redis.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from lumia.box import limit as largest_box
from lumia.dead import DeadLetter, Failure
from lumia.flow import NEVER, Deferred
from lumia.journal import KEPT, JournalEntry, entry_text
from lumia.lanes import LaneOptions, Rate
from lumia.marks import DEFAULT_QUEUE, NORMAL
from lumia.ports import Claim, Commit, Limits, RunRequest, StepRecord, StoreOp
from lumia.routes import Plan, PlanStep
from tasks.letters import packed

PIPE = "pipe"
"""The flow of most runs, which their records leave out."""
CLAIM_MARGIN_SECONDS = 2.0
"""A claim outlasts its step's limit, so that an async handler that was cancelled at it can still commit its failure."""
ALONE_AFTER = 2
"""A step that was lost with its worker so often is executed in a process of its own; lib.lua knows the number, too."""
ALONE_START_SECONDS = 15.0
"""How long such a process may take to load; lib.lua adds it to the claim."""


_dumps = json.JSONEncoder(separators=(",", ":")).encode


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def timeout_ms(step: PlanStep, limits: Limits) -> int:
    """Return how long a claim of `step` lasts, in milliseconds."""
    return _ms((step.timeout or limits.step_timeout) + CLAIM_MARGIN_SECONDS)


def _hard(step: PlanStep, limits: Limits) -> int | str:
    return _ms(step.timeout or limits.step_timeout) if step.hard else ""


_text = json.encoder.encode_basestring_ascii
_USUAL = ("cause", "parent", "inside", "delay", "attempt", "retry_of", "arc", "failures", "hold", "lane", "rate",
          "returning")  # fmt: skip
_asked = attrgetter(*_USUAL)


def run(request: RunRequest, limits: Limits, worker: str, *, with_plan: bool) -> str:
    """Return the JSON that `begin` in lib.lua reads."""
    elsewhere = request.plan.queue != DEFAULT_QUEUE or request.deferred != NEVER
    if elsewhere or request.root_id != request.run_id or request.attached or any(_asked(request)):
        return _unusual(request, limits, worker, with_plan=with_plan)
    # What comes in from outside is of this kind; most of its text is the same for every run of a plan.
    fixed, named = _common(request, limits)
    name, keyed = _text(request.run_id), f',"k":{_text(request.key)}' if request.key else ""
    detail = f',"d":{{"{KEPT}":{request.kept:g}}}' if request.kept else ""
    entry = f'{{"n":"start","r":{name},{named}{keyed},"f":"{request.flow}"{detail}}}'
    found = f'{{"r":{name},{fixed}{keyed},"j":{_text(entry)}'
    if request.dedup:
        found += f',"dd":{_text(request.dedup)}'
    if request.in_line:
        found += ',"il":1'
    if not request.plan.steps:
        ended = f'{{"n":"end","r":{name},{named}{keyed},"z":"done","y":"no handler"}}'
        found += f',"je":{_text(ended)}'
    if with_plan:
        found += f',"pt":{_text(request.plan.text)}'
    return found + "}"


_kept: dict[tuple[Any, ...], tuple[str, str]] = {}


def _common(request: RunRequest, limits: Limits) -> tuple[str, str]:
    """Return the JSON members that all usual runs of a plan have in common, and those of their entries."""
    key = (request.flow, request.id, request.plan.digest, request.priority, limits.step_timeout)
    known = _kept.get(key)
    if known is None:
        if len(_kept) >= 1024:
            _kept.clear()
        members = _dumps({name: value for name, value in _members(request, limits).items() if value != ""})
        known = _kept[key] = (members[1:-1], f'"i":{_text(request.id)}')
    return known


def _members(request: RunRequest, limits: Limits) -> dict[str, Any]:
    """Return what follows from a run's plan, id and priority."""
    first = request.plan.steps[0] if request.plan.steps else None
    return {
        "i": request.id, "n": request.flow if request.flow != PIPE else "", "d": request.plan.digest,
        "p": request.priority if request.priority != NORMAL else "", "h": first.handler if first else "",
        "l": first.queue if first and first.queue != DEFAULT_QUEUE else "",
        "m": _hard(first, limits) if first else "", "to": timeout_ms(first, limits) if first else "",
    }  # fmt: skip


def _unusual(request: RunRequest, limits: Limits, worker: str, *, with_plan: bool) -> str:
    detail: dict[str, Any] = {"cause": request.cause} if request.cause else {}
    if request.delay > 0:
        detail["delay"] = request.delay
    if request.kept:
        detail[KEPT] = request.kept
    if request.plan.queue != DEFAULT_QUEUE:
        detail["queue"] = request.plan.queue
    named = (request.run_id, request.root_id, request.id, request.key)
    entry = entry_text("start", *named, detail=detail, flow=request.flow)
    ended = "" if request.plan.steps else entry_text("end", *named, outcome="done", reason="no handler")
    found: dict[str, Any] = {
        **_members(request, limits), "r": request.run_id, "k": request.key,
        "o": request.root_id if request.root_id != request.run_id else "", "c": request.cause, "cr": request.parent,
        "u": request.parent if request.attached else "", "pt": request.plan.text if with_plan else "",
        "a": request.attempt or "", "R": request.retry_of, "A": "1" if request.arc else "",
        "H": "1" if request.hold else "", "L": "i" if request.inside else "r" if request.returning else "",
        "w": worker if request.arc else "", "dl": _ms(request.delay) or "", "dd": request.dedup, "j": entry,
        "je": ended, "F": failures_text(request.failures) if request.failures else "",
        "W": deferred_text(request.deferred) if request.deferred != NEVER else "", "il": 1 if request.in_line else "",
    }  # fmt: skip
    if request.lane is not None:
        found["lo"] = lane(request, request.lane)
    if request.rate is not None:
        found["rt"] = rate(request.limit_name, request.rate)
    return _dumps({name: value for name, value in found.items() if value != ""})


def lane(request: RunRequest, options: LaneOptions) -> dict[str, Any]:
    """Return the options of a lane as lanes.lua reads them: bf names the burst, mx bounds its Box."""
    found: dict[str, Any] = {} if options.cap is None else {"cap": options.cap, "of": options.overflow}
    if options.max_age:
        found |= {"ma": _ms(options.max_age), "st": options.stale}
    if options.collect:
        name = f"{request.key}\n{request.flow}{' held' if request.hold else ''} {request.id}"
        found |= {"co": _ms(options.collect), "mw": _ms(options.longest), "bf": name, "mx": largest_box()}
    return found


def rate(name: str, limit: Rate) -> dict[str, Any]:
    """Return a rate as lanes.lua reads it: interval and slack in ms."""
    return {"n": name, "iv": limit.interval * 1000, "sl": limit.slack * 1000, "ov": limit.over, "y": str(limit)}


def commit(
    claim: Claim,
    done: Commit,
    limits: Limits,
    worker: str,
    before: Sequence[Mapping[str, Any]] = (),
    under_way: bool = False,
) -> str:
    """Return the JSON that commit.lua reads.

    before: the commits of earlier steps that go ahead of it. under_way: the step that follows is being executed.
    """
    follower = claim.plan.steps[done.index if done.action == "next" else claim.step]
    found = {
        "r": claim.run_id, "x": claim.step, "t": claim.token, "op": done.action, "y": done.reason,
        "store": [store_op(op) for op in done.store], "keep": _ms(limits.keep_runs),
        "window": _ms(limits.dedup_window), "limit": limits.journal_bytes,
    }  # fmt: skip
    if done.action != "handback":
        found |= {"rec": record(done.record), "j": done.entry.dump()}
    if done.action == "end":
        found["z"] = done.outcome
        if done.batch and limits.batch > 1:
            found |= {"batch": 1, "w": worker}
    else:
        found |= {"to": timeout_ms(follower, limits), "delay": _ms(done.delay)}
        if done.failures:
            found["F"] = failures_text(done.failures)
    if done.action == "next":
        found |= {"nx": done.index, "h": follower.handler, "l": follower.queue}
        if follower.hard:
            found["m"] = _hard(follower, limits)
        if done.fuse:
            found["fuse"] = 1
    if before:
        found["g"] = before
        found.setdefault("h", follower.handler)
    if under_way:
        found["on"] = 1
    if done.release:
        found["rl"] = 1
    if done.free:
        found["wt"] = 1
    if done.deferred:
        found["W"] = deferred_text(done.deferred)
    if done.dead is not None:
        found |= {"dead": packed(done.dead), "jd": _dead_entry(claim, done.dead).dump()}
    return _dumps(found)


def _dead_entry(claim: Claim, dead: DeadLetter) -> JournalEntry:
    return JournalEntry("dead", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, dead.handler,
                        reason=dead.error, attempt=dead.attempts)  # fmt: skip


def store_op(op: StoreOp) -> dict[str, Any]:
    """Return one store write."""
    return {"o": op.op, "k": op.key, "v": op.value, "f": op.field, "n": op.keep, "t": _ms(op.ttl) if op.ttl else 0}


def store_ops(ops: Sequence[StoreOp]) -> str:
    """Return the JSON that write.lua reads."""
    return _dumps([store_op(op) for op in ops])


def record(step: StepRecord) -> str:
    """Return a step's line in the run record."""
    return _dumps([step.handler, step.outcome, step.reason, step.ms, step.attempt])


def parse_record(text: bytes) -> StepRecord:
    """Return the step a line describes."""
    return StepRecord(*json.loads(text))


def failures_text(failures: Sequence[Failure]) -> str:
    """Return how tries that came to nothing are kept in the run record."""
    return _dumps([failure.packed() for failure in failures])


def parse_failures(text: str) -> tuple[Failure, ...]:
    """Return the failures of a run record's text."""
    return tuple(map(Failure.unpacked, json.loads(text))) if text else ()


def deferred_text(deferred: Deferred) -> str:
    """Return how it is kept that a step was put off: how often, and ms."""
    return f"{deferred.times} {_ms(deferred.seconds)}"


def parse_deferred(text: str) -> Deferred:
    """Return what a run record's text says of it."""
    times, _, ms = text.partition(" ")
    return Deferred(int(times), int(ms) / 1000) if text else NEVER


def claim(reply: Sequence[bytes], plan: Plan) -> Claim:
    """Return the claim of a script's reply, see `fields` in lib.lua."""
    (run_id, step, token, attempt, flow, id_, key, root, cause, priority, _, retry_of, arc, handbacks, overdue, losses,
     failures, hold, waited, stale, deferred, box) = ((item or b"").decode() for item in reply[1:])  # fmt: skip
    return Claim(
        run_id, int(step or 0), int(token), int(attempt), flow or PIPE, id_, key, root or run_id, cause,
        int(priority or NORMAL), plan, box, retry_of=retry_of, arc=arc == "1", handbacks=int(handbacks or 0),
        overdue=int(overdue or 0), waited=int(waited or 0) / 1000, stale=int(stale or 0) / 1000,
        losses=int(losses or 0), failures=parse_failures(failures), hold=hold == "1",
        deferred=parse_deferred(deferred),
    )  # fmt: skip
