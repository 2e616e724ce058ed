"""`lumia.effect`: calls to the outside world, recorded so that a retry does not make them again (DESIGN §5)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from lumia.box import Box
from lumia.context import StepContext, active
from lumia.errors import EffectError
from lumia.journal import JournalEntry
from lumia.ports import EffectRecord

POLICIES = ("retry", "hold")


def effect(
    key: str, call: Callable[..., Any], *args: Any, policy: str = "retry", kind: str = "call", **kwargs: Any
) -> Any:
    """Run `call(*args, **kwargs)` once per (run, step, key) and return its result; a retry gets the recorded one.

    policy says what happens when a worker died between intent and result, so that nobody knows whether the call was
    made: `retry` makes it again (at least once), `hold` raises `EffectError` (at most once, the run goes to the dead
    letters). An async `call` gives an awaitable. Outside of a step the call is simply made.
    """
    if policy not in POLICIES:
        raise EffectError(f"effect {key!r}: policy is one of {', '.join(POLICIES)}, got {policy!r}")
    step = active()
    if inspect.iscoroutinefunction(call):
        return _awaited(step, key, call(*args, **kwargs), policy, kind)
    if step is None:
        return call(*args, **kwargs)
    ledger = _Ledger(step, key, policy, kind)
    if ledger.known():
        return ledger.result
    with ledger:
        return ledger.done(call(*args, **kwargs))


async def _awaited(step: StepContext | None, key: str, call: Awaitable[Any], policy: str, kind: str) -> Any:
    if step is None:
        return await call
    ledger = _Ledger(step, key, policy, kind)
    if ledger.known():
        if inspect.iscoroutine(call):
            call.close()
        return ledger.result
    with ledger:
        return ledger.done(await call)


class _Ledger:
    """One effect's way through the ledger: intended → done, or failed."""

    def __init__(self, step: StepContext, key: str, policy: str, kind: str) -> None:
        self._step, self._key, self._policy, self._kind = step, key, policy, kind
        origin, _, index = step.claim.retry_of.rpartition("/")
        self._run = origin or step.claim.run_id
        self._name = f"{index or step.claim.step}:{key}"
        self._started = step.runtime.clock.monotonic()
        self.result: Any = None

    def known(self) -> bool:
        """Tell whether a result is recorded; raises `EffectError` when the outcome is unknown and must be held."""
        claim = self._step.claim
        if claim.attempt == 1:
            return False
        record = self._step.runtime.transport.effect(self._run, self._name)
        if record is None or record.state == "failed":
            return False
        if record.state == "done":
            self.result = Box.load(record.value, self._step.runtime.secret).into()
            return True
        if "hold" in (record.policy, self._policy):
            raise EffectError(
                f"effect {self._key!r} of {self._step.step.handler} in run {claim.run_id} was begun and its outcome is "
                "unknown; its policy is 'hold', so it is not made again: check the outside world, then retry by hand"
            )
        return False

    def __enter__(self) -> None:
        self._record("intended", "", None)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self._policy == "retry":
            self._record("failed", "", self._entry("failed", f"{type(error).__name__}: {error}"))

    def done(self, value: Any) -> Any:
        """Record the result and return it."""
        wire = Box.any(value).dump(self._step.runtime.secret)
        self._record("done", wire, self._entry("done", ""))
        return value

    def _record(self, state: str, wire: str, entry: JournalEntry | None) -> None:
        record = EffectRecord(state, wire, self._policy)
        self._step.runtime.transport.record_effect(self._run, self._name, record, entry)

    def _entry(self, outcome: str, reason: str) -> JournalEntry:
        claim, runtime = self._step.claim, self._step.runtime
        ms = round((runtime.clock.monotonic() - self._started) * 1000, 3)
        return JournalEntry(
            "effect", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, self._step.step.handler, outcome,
            runtime.redact(reason), ms=ms, attempt=claim.attempt, worker=runtime.worker,
            detail={"effect": self._key, "kind": self._kind},
        )  # fmt: skip
