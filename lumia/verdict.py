"""The verdict: one line that says why a message was, or was not, answered; computed from its trace (`lumia.trace`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lumia.errors import UnknownSendError
from lumia.ids import is_message
from lumia.journal import CANCEL
from lumia.trace import ANSWER, Effect, Run, Step, Trace

MESSAGES = ("msg", "reply")
"""What ids of runs begin with of which an answer is expected."""
WORST = ("failed", "blocked", "cancelled", "stopped")
DELIVERY = "send:"
"""What the lane of a run begins with that an adapter started to deliver a `msg.send` (`lumia.adapters.dispatch`)."""
WAITING = {"queued": "waiting for a worker", "delayed": "delayed"}


@dataclass(frozen=True)
class Verdict:
    """text: the line. answered: whether a message was delivered; None while it is open or none was to be expected."""

    text: str
    answered: bool | None


def verdict(root: Run) -> Verdict:
    """Return what a tree came to, and why."""
    tree = list(root.attached)
    sends = [run for run in tree if run.id.startswith(ANSWER)]
    delivered = [run for run in sends if is_delivered(run)]
    waits = next((text for text in (*map(_going_on, _inner_first(tree)), *map(_under_way, sends)) if text), "")
    why = waits or _hindrance(root, tree, sends)
    if delivered:
        return Verdict(_delivered(delivered, [run for run in sends if run not in delivered], why), True)
    if not _expects_answer(root) and not sends:
        return Verdict(why or f"{root.outcome}: {_count(sum(len(run.steps) for run in tree), 'step')}", None)
    if waits:
        return Verdict(f"not answered yet: {waits}", None)
    return Verdict(f"not answered: {why or 'every step went well, but none sent a message'}", False)


def as_dict(trace: Trace) -> dict[str, Any]:
    """Return the JSON form of a trace with its verdict, see docs/trace.md."""
    told = verdict(trace.run)
    return {"version": 1, "verdict": told.text, "answered": told.answered, **asdict(trace)}


def is_delivered(run: Run) -> bool:
    """Tell whether the message of a `msg.send` run arrived.

    A handler took it, no call of it failed or was held, and the run that an adapter delivers it by went well.
    """
    took = any(step.outcome in ("next", "stop") for step in run.steps)
    again = any(child.relation == "retry" and is_delivered(child) for child in run.children)
    failed = bool(run.dead or any(step.outcome == "failed" for step in run.steps) or _undone(run))
    failed = failed or any(other.outcome != "done" for other in _deliveries(run))
    return again or (run.ended is not None and run.outcome == "done" and took and not failed)


def _deliveries(run: Run) -> list[Run]:
    """Return the runs by which adapters deliver the message of a `msg.send` run: detached, in the chat's own lane."""
    return [child for child in run.children if child.relation == "detached" and child.key.startswith(DELIVERY)]


def _under_way(run: Run) -> str:
    """Say which delivery of a `msg.send` run has not ended; "" when all have."""
    found = next((other for other in _deliveries(run) if other.ended is None), None)
    return f"{found.id} has not ended, `lumia trace {found.run_id}` shows where it is" if found is not None else ""


def _expects_answer(root: Run) -> bool:
    return is_message(root.id) or (root.flow != "event" and root.id.split(".")[0].split(",")[0] in MESSAGES)


def _delivered(runs: Sequence[Run], others: Sequence[Run], why: str) -> str:
    moments = sorted(max(found.ended or 0.0 for found in (run, *_deliveries(run))) for run in runs)
    text = f"answered: {_count(len(runs), 'message')} delivered at +{seconds(moments[0])}"
    if len(moments) > 1:
        text += f", the last at +{seconds(moments[-1])}"
    if others:
        return f"{text}; {_count(len(others), 'message')} not: {why or 'see below'}"
    return f"{text}; still going on: {why}" if why and any(run.ended is None for run in runs) else text


def _inner_first(tree: Sequence[Run]) -> list[Run]:
    return [run for run in reversed(tree) if run.ended is None]


def _going_on(run: Run) -> str:
    """Say where a run is that has not ended; "" when only its children keep it."""
    live, since = run.live, seconds(run.waited)
    if run.state == "ended":
        return ""
    if live is None:
        return f"{run.id or run.run_id} has not ended, and where it is can't be told from here"
    if run.state == "waiting":
        behind = f" behind run {live.behind}" if live.behind else ""
        return f"{run.id} has been waiting in lane {run.key}{behind} for {since}"
    if run.state == "claimed":
        tries = f" (try {live.attempt})" if live.attempt > 1 else ""
        cancelled = any(act.kind == CANCEL for act in run.acts)
        asked = "; its end is asked for, it comes with the step's" if cancelled else ""
        return f"{live.handler or run.id}{tries} has been running for {since}{asked}"
    again = run.steps and run.state == "delayed" and run.steps[-1].outcome != "next"
    tried = f" after try {run.steps[-1].attempt}: {run.steps[-1].reason}" if again else ""
    return f"{live.handler or run.id} has been {WAITING.get(run.state, run.state)} for {since}{tried}"


def _hindrance(root: Run, tree: Sequence[Run], sends: Sequence[Run]) -> str:
    """Say what hindered an answer: the root's own end, a send that did not arrive, then whatever else went wrong."""
    if root.outcome in WORST and not (root.outcome == "stopped" and sends):
        return _of_run(root)
    for run in sends:
        if not is_delivered(run):
            return _of_send(run)
    if root.steps == () and root.outcome == "done":
        return f"nothing handles {root.id!r}: no plugin that does was loaded, see `lumia handlers`"
    bad = [run for run in tree if run.outcome in WORST or run.dead]
    return _of_run(min(bad, key=_badness)) if bad else ""


def _badness(run: Run) -> int:
    return WORST.index(run.outcome) if run.outcome in WORST else 0


def _of_run(run: Run) -> str:
    last = run.steps[-1] if run.steps else None
    if run.outcome == "failed" or (run.dead and run.outcome not in WORST):
        return _failure(run)
    by = f" by {last.handler}" if last is not None and run.outcome in ("stopped", "blocked") else ""
    return f"{run.outcome}{by}: {run.reason or 'no reason given'}"


def _failure(run: Run) -> str:
    failed = next((step for step in reversed(run.steps) if step.outcome == "failed"), None)
    where = failed.handler if failed else run.id
    tried = [step for step in run.steps if failed and step.handler == failed.handler and not _only_tells(step)]
    tries = max((step.attempt for step in tried), default=1)
    reason = (failed.reason if failed else "") or run.dead or run.reason
    told = f"{'dead letter at' if run.dead else 'failed at'} {where} after {_tries(tries)}: {reason}"
    into = next((act.run for act in reversed(run.acts) if act.run), "")
    return f"{told}; retried as run {into}" if into else told


def _only_tells(step: Step) -> bool:
    """Tell whether a try ran nothing, but says that those before it were lost."""
    return step.outcome == "failed" and step.reason.startswith(("hung: ", "given up: "))


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def _of_send(run: Run) -> str:
    if not run.steps and run.outcome == "done":
        return f"nothing delivers {run.id!r}: no adapter that does was loaded, see `lumia plugins`"
    lost = next((other for other in _deliveries(run) if other.ended is not None and other.outcome != "done"), None)
    if lost is not None:
        open = lost.reason.startswith(UnknownSendError.__name__)
        told = "nobody knows whether the reply arrived" if open else "the reply did not arrive"
        return f"{told}: {lost.id} {lost.outcome}: {lost.reason}; see `lumia trace {lost.run_id}`"
    found = _undone(run)
    if found is not None:
        step, effect = found
        if effect.outcome == "held":
            return f"the reply was held: {step.handler} did not make the call {effect.key!r}"
        if effect.outcome == "unknown":
            return f"nobody knows whether the reply arrived: {step.handler} was lost during the call {effect.key!r}"
    return f"the reply did not arrive: {_of_run(run)}" if run.outcome in WORST or run.dead else _send_failed(run)


def _send_failed(run: Run) -> str:
    reasons = [f"{step.handler}: {step.reason or step.outcome}" for step in run.steps]
    return f"the reply did not arrive: {'; '.join(reasons) or run.reason or 'no handler took it'}"


def _undone(run: Run) -> tuple[Step, Effect] | None:
    """Return the step and call that leave it open whether a message went out, None when nothing does."""
    last = {effect.key: (step, effect) for step in run.steps for effect in step.effects}
    return next((found for found in last.values() if found[1].outcome in ("held", "unknown")), None)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds(ms: float) -> str:
    """Return a time as a reader likes it: 850 ms, 1.84 s, 2 min 5 s, 3 h 10 min."""
    if ms < 1:
        return f"{ms:.2g} ms" if ms else "0 ms"
    if ms < 1000:
        return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.2f} s" if ms < 10_000 else f"{ms / 1000:.1f} s"
    minutes, rest = divmod(round(ms / 1000), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
