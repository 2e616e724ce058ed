"""`lumia.effect`: calls to the outside world, recorded so that a retry does not make them again (DESIGN §5)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from lumia.box import Box
from lumia.context import StepContext, active
from lumia.errors import BoxError, EffectError, LumiaError
from lumia.journal import JournalEntry, clean, described
from lumia.marks import MAX_NAME, is_name

POLICIES = ("retry", "hold")


def effect(
    key: str, call: Callable[..., Any], *args: Any, policy: str = "retry", kind: str = "call", **kwargs: Any
) -> Any:
    """Run `call(*args, **kwargs)` once per (run, step, key) and return its result; a retry gets the recorded one.

    policy says what happens when a worker died between intent and result, so that nobody knows whether the call was
    made: `retry` makes it again (at least once), `hold` raises `EffectError` (at most once, the run goes to the dead
    letters). An async `call` gives an awaitable. Outside of a step the call is simply made.

    Raises `EffectError`, too, for a key used with other arguments in the same step, and for a result that can't be
    recorded.
    """
    if policy not in POLICIES:
        raise EffectError(f"effect {key!r}: policy is one of {', '.join(POLICIES)}, got {policy!r}")
    if not is_name(key):
        raise EffectError(f"an effect's key is 1 to {MAX_NAME} printable characters, got {str(key)[:80]!r}")
    step = active("lumia.effect()")
    if step is None:
        return call(*args, **kwargs)
    ledger = _Ledger(step, key, policy, kind, (args, kwargs))
    if inspect.iscoroutinefunction(call):
        return _awaited(ledger, call(*args, **kwargs))
    if ledger.known():
        return ledger.result
    with ledger:
        return ledger.done(call(*args, **kwargs))


async def _awaited(ledger: _Ledger, call: Awaitable[Any]) -> Any:
    if ledger.known(call):
        return ledger.result
    with ledger:
        return ledger.done(await call)


class _Ledger:
    """One effect's way through the ledger: intended → done, or failed."""

    def __init__(self, step: StepContext, key: str, policy: str, kind: str, given: Any) -> None:
        self._step, self._key, self._policy, self._kind, self._given = step, key, policy, kind, given
        self._run, _, index = step.claim.ledger.rpartition("/")
        self._name = f"{index}:{key}"
        self._started = step.runtime.clock.monotonic()
        self.result: Any = None

    def known(self, call: Any = None) -> bool:
        """Tell whether a result is recorded; raises `EffectError` when the outcome is unknown and must be held.

        call: the coroutine that isn't needed then.
        """
        try:
            active("lumia.effect()")  # an awaitable may be awaited after its step
            found = self._known_here() or self._known_before()
        except LumiaError:
            _close(call)
            raise
        if found:
            _close(call)
        return found

    def _known_here(self) -> bool:
        """Look for an earlier use of the key in this try."""
        before = self._step.effects.get(self._key)
        if before is None:
            return False
        given, wire = before
        if not _same(given, self._given):
            raise EffectError(
                f"{self._step.step.handler} uses the effect key {self._key!r} for two calls with different arguments; "
                "give each call a key of its own, e.g. with a number in it"
            )
        if wire:
            self.result = Box.load(wire, self._step.runtime.secret).into()
        elif self._policy == "hold":
            raise self._held()
        return bool(wire)

    def _known_before(self) -> bool:
        """Look for what an earlier try has recorded."""
        if self._step.claim.attempt == 1 and not self._step.claim.retry_of:
            return False
        record = self._step.runtime.transport.effect(self._run, self._name)
        if record is None or record.state == "failed":
            return False
        if record.state == "done":
            self._step.effects[self._key] = (self._given, record.value)
            self.result = Box.load(record.value, self._step.runtime.secret).into()
            return True
        if "hold" in (record.policy, self._policy):
            raise self._held()
        return False

    def _held(self) -> EffectError:
        run_id, handler = self._step.claim.run_id, self._step.step.handler
        return EffectError(
            f"effect {self._key!r} of {handler} in run {run_id} was begun and its outcome is unknown; its policy is "
            "'hold', so it is not made again: check the outside world, then retry by hand"
        )

    def __enter__(self) -> None:
        self._record("intended", "", None)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            # A call that must not be made twice may have worked although it raised: its outcome stays unknown.
            state = "failed" if self._policy == "retry" else "intended"
            self._record(state, "", self._entry("failed", described(error)))

    def done(self, value: Any) -> Any:
        """Record the result and return it; raises `EffectError` when it can't be recorded."""
        if inspect.isawaitable(value):
            _close(value)
            raise EffectError(
                f"effect {self._key!r} of {self._step.step.handler}: the call gave something to await; pass the "
                "`async def` function itself and await what lumia.effect() returns"
            )
        try:
            wire = Box.any(value).dump(self._step.runtime.secret)
        except BoxError as error:
            raise EffectError(
                f"effect {self._key!r} of {self._step.step.handler} was made, but its result can't be recorded: {error}"
            ) from error
        self._record("done", wire, self._entry("done", ""))
        return value

    def _record(self, state: str, wire: str, entry: JournalEntry | None) -> None:
        from lumia.ports import EffectRecord  # see lumia.store

        record = EffectRecord(state, wire, self._policy)
        self._step.runtime.transport.record_effect(self._run, self._name, record, entry)
        self._step.effects[self._key] = (self._given, wire)

    def _entry(self, outcome: str, reason: str) -> JournalEntry:
        claim, runtime = self._step.claim, self._step.runtime
        ms = round((runtime.clock.monotonic() - self._started) * 1000, 3)
        return JournalEntry(
            "effect", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, self._step.step.handler, outcome,
            clean(runtime.redact(reason)), ms=ms, attempt=claim.attempt, worker=runtime.worker,
            detail={"effect": self._key, "kind": self._kind},
        )  # fmt: skip


def _close(call: Any) -> None:
    if inspect.iscoroutine(call):
        call.close()


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # e.g. arrays: what can't be compared is taken for equal
        return True
