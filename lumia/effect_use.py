"""One use of an effect in a step: its place in the ledger, what it came to, and its line in the journal."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lumia.box import Box
from lumia.compressed import fitted, unpack
from lumia.context import StepContext
from lumia.errors import BoxError, EffectError, NotDoneError, RetryAfterError, StaleClaimError, UnknownSendError
from lumia.journal import JournalEntry, clean, described
from lumia.recording import Made, inner

if TYPE_CHECKING:
    from lumia.ports import EffectRecord, EffectUse

POLICIES = ("retry", "hold")
KINDS = ("call", "model", "embed", "tool", "send", "http")


class Use:
    """One use of an effect: looked up, begun, and ended with a result or an error. result: the recorded one."""

    def __init__(self, step: StepContext, key: str, policy: str, kind: str, given: Any) -> None:
        self.step, self.key, self._policy, self._kind, self._given = step, key, policy, kind, given
        self._run, _, at = step.claim.ledger.rpartition("/")
        self._name = f"{at}:{key}"
        self._started = step.runtime.clock.monotonic()
        self._detail = self._described()
        self.result: Any = None

    def _described(self) -> dict[str, Any]:
        detail: dict[str, Any] = {"effect": self.key, "kind": self._kind, "policy": self._policy}
        digest = _digest(self._given, self.step.runtime.redact)
        named = {"args": digest, "inside": inner(), "ledger": self.step.claim.shared}
        return {**detail, **{name: value for name, value in named.items() if value}}

    # --- is it known?

    def known_here(self) -> bool:
        """Tell whether an earlier use in this try has a result; raises `EffectError` for one with other arguments."""
        before = self.step.effects.get(self.key)
        if before is None:
            return False
        given, wire = before
        if not _same(given, self._given):
            raise EffectError(
                f"{self.step.step.handler} uses the effect key {self.key!r} for two calls with different arguments; "
                "give each call a key of its own, e.g. with a number in it"
            )
        if wire:
            self._load(wire)
        elif self._policy == "hold":
            raise self._held()
        return bool(wire)

    def begin(self) -> bool:
        """Tell whether there is a recorded result, else note the intent: the call may be made.

        Raises `EffectError` for an outcome that is unknown and must be held, and `StaleClaimError`.
        """
        if self.step.player is not None:
            return self._played(self.step.player.effect(self.key, self._kind, self._detail.get("args", "")))
        record = self.step.runtime.transport.begin_effect(self.step.claim, self._ledger())
        if record is None:
            self._remember("")
            return False
        if record.state == "unknown":
            raise self._held()
        self._remember(record.value)
        self._load(record.value)
        return True

    def _played(self, made: Made | None) -> bool:
        self._remember(made.value if made is not None and made.outcome == "done" else "")
        if made is None:
            raise EffectError(
                f"{self.step.step.handler} calls effect {self.key!r}, of which the recorded run has no result; "
                "a replay makes no call to the outside world"
            )
        if made.outcome == "held":
            raise self._held()
        if made.outcome != "done":
            raise _again(made)
        self._add(made.figures)
        self._load(made.value)
        return True

    def _load(self, wire: str) -> None:
        self.result = Box.load(unpack(wire), self.step.runtime.secret).into()

    def _remember(self, wire: str) -> None:
        self.step.effects[self.key] = (self._given, wire)

    def _held(self) -> EffectError:
        kind = UnknownSendError if self._kind == "send" else EffectError
        return kind(
            f"effect {self.key!r} of {self.step.step.handler} in run {self.step.claim.run_id} was begun and its "
            "outcome is unknown; its policy is 'hold', so it is not made again: check the outside world, say what you "
            f"found by `lumia effects settle {self._run} {self._name!r} --done JSON` or `--failed`, and retry the dead "
            "letter"
        )

    # --- what it came to

    def done(self, value: Any) -> tuple[EffectRecord, JournalEntry]:
        """Return what is to be recorded of a result; raises `EffectError` when it can't be."""
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise EffectError(
                f"effect {self.key!r} of {self.step.step.handler}: the call gave something to await; pass the "
                "`async def` function itself and await what lumia.effect() returns"
            )
        try:
            wire = Box.any(value).dump(self.step.runtime.secret)
        except BoxError as error:
            raise EffectError(
                f"effect {self.key!r} of {self.step.step.handler} was made, but its result can't be recorded: {error}"
            ) from error
        figures = _figures(value) if self._kind in ("model", "embed") else {}
        self._add(figures)
        return self._record("done", fitted(wire)), self._entry("done", "", {**figures, **self._shown(wire)})

    def failed(self, error: BaseException) -> tuple[EffectRecord, JournalEntry]:
        """Return what is to be recorded of a call that raised, or whose result could not be recorded.

        A call that was cut off, or must not be made twice, may have worked all the same: its outcome is unknown, unless
        the error says that it surely had no effect.
        """
        mistake = isinstance(error, Exception) and not isinstance(error, EffectError)
        certain = isinstance(error, NotDoneError) or (mistake and self._policy == "retry")
        from lumia.redaction import cleaned_error

        reason = clean(cleaned_error(described(error), self.step.runtime.redact))
        state = "failed" if certain else "unknown"
        kind = type(error)
        detail: dict[str, Any] = {"error": f"{kind.__module__}:{kind.__qualname__}"}
        if isinstance(error, RetryAfterError):
            detail["wait"] = error.wait
        return self._record(state, reason), self._entry(state, reason, detail)

    def end(self, ended: tuple[EffectRecord, JournalEntry]) -> None:
        """Record it; raises `StaleClaimError` when it came too late and another try has begun the call anew."""
        if self.step.player is not None:
            return
        record, entry = ended
        self._remember(record.value if record.state == "done" else "")
        if not self.step.runtime.transport.end_effect(self.step.claim, self._ledger(), record, entry):
            claim = self.step.claim
            raise StaleClaimError(
                f"effect {self.key!r} of run {claim.run_id}, step {claim.step}: another worker has taken the step over "
                "and made the call itself; this result is discarded"
            )

    def _add(self, figures: Mapping[str, Any]) -> None:
        """Count tokens and cost of a call of this try for the step; calls without a known price are counted apart."""
        if not figures:
            return
        sums = self.step.figures = self.step.figures or {}
        cost = figures.get("cost")
        for name in ("tokens_in", "tokens_out"):
            sums[name] = sums.get(name, 0) + figures[name]
        name, amount = ("unpriced", 1) if cost is None else ("cost", cost)
        sums[name] = sums.get(name, 0) + amount

    def _shown(self, wire: str) -> dict[str, Any]:
        from lumia.redaction import cleaned_wire

        text, changed = cleaned_wire(wire, self.step.runtime.redact, self.step.runtime.secret)
        return {"value": fitted(text), **({"hidden": True} if changed else {})}

    def _record(self, state: str, value: str) -> EffectRecord:
        from lumia.ports import EffectRecord  # see lumia.store

        claim = self.step.claim
        return EffectRecord(state, value, self._policy, claim.token, claim.run_id, claim.step)

    def _ledger(self) -> EffectUse:
        from lumia.ports import EffectUse  # see lumia.store

        return EffectUse(self._run, self._name, self._policy, self._entry("", "", {}))

    def _entry(self, outcome: str, reason: str, more: Mapping[str, Any]) -> JournalEntry:
        claim, runtime = self.step.claim, self.step.runtime
        ms = round((runtime.clock.monotonic() - self._started) * 1000, 3) if outcome else 0.0
        return JournalEntry(
            "effect", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, self.step.step.handler, outcome,
            reason, ms=ms, attempt=claim.attempt, worker=runtime.worker, detail={**self._detail, **more},
        )  # fmt: skip


def _figures(value: Any) -> dict[str, Any]:
    """Return model, tokens and cost of a model's answer as lumia.models records it; nothing for other values."""
    usage = value.get("usage") if isinstance(value, Mapping) else None
    if not isinstance(usage, Mapping):
        return {}
    found = {
        "model": str(value.get("model", "")),
        "tokens_in": int(usage.get("input_tokens", 0)),
        "tokens_out": int(usage.get("output_tokens", 0)),
    }
    cost = value.get("cost")
    return found if cost is None else {**found, "cost": float(cost)}


def _digest(given: Any, redact: Callable[[str], str]) -> str:
    """Return a short digest of arguments, "" for none and for those that have no lasting text. Secrets don't go in."""
    if given == ((), {}):
        return ""
    from hashlib import blake2b

    from lumia.redaction import cleaned

    try:
        data = json.loads(json.dumps(given, sort_keys=True, default=_shape))
    except (TypeError, ValueError, RecursionError):
        return ""
    text = json.dumps(cleaned(data, redact)[0], sort_keys=True)
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _shape(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else type(value).__qualname__


def _again(made: Made) -> BaseException:
    """Return the error a recorded call raised: of the same class where that is at hand, as a handler may expect it."""
    module, _, name = made.error.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    message = made.reason.removeprefix(f"{name.rpartition('.')[2]}: ")
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            error = found.__new__(found, message)
            error.args = (message,)
            if isinstance(error, RetryAfterError):
                error.wait = made.wait
            return error
        except Exception:  # a class that can't be made from a message
            pass
    return EffectError(made.reason or f"effect {made.key!r} had no result when it was recorded")


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # e.g. arrays: what can't be compared is taken for equal
        return True
