"""The effect ledger of the in-memory transport: who may write what, as tasks/scripts/effect_*.lua have it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from lumia.errors import EffectError, StaleClaimError
from lumia.journal import JournalEntry
from lumia.ports import HELD, LOST, REPLAYED, Claim, EffectRecord, EffectUse

IsLive = Callable[[str, int, int], bool]
"""Whether the try (run, step, token) holds its claim."""


class Ledger:
    """Effects by run and name. Not safe for threads: the transport holds its lock. stale: results discarded."""

    def __init__(self, is_live: IsLive, log: Callable[[JournalEntry], None]) -> None:
        self._runs: dict[str, dict[str, EffectRecord]] = {}
        self._is_live, self._log = is_live, log
        self.stale = 0

    def get(self, run_id: str, name: str) -> EffectRecord | None:
        """Return a record."""
        return self._runs.get(run_id, {}).get(name)

    def put(self, run_id: str, name: str, record: EffectRecord) -> None:
        """Write a record."""
        self._runs.setdefault(run_id, {})[name] = record

    def forget(self, run_id: str) -> None:
        """Drop a run's records."""
        self._runs.pop(run_id, None)

    def begin(self, claim: Claim, use: EffectUse) -> EffectRecord | None:
        """See `Transport.begin_effect`."""
        if not self._is_live(claim.run_id, claim.step, claim.token):
            self.stale += 1
            raise StaleClaimError(f"run {claim.run_id}, step {claim.step}: taken over by another worker")
        there = self.get(use.run_id, use.name)
        if there is not None and there.state == "done":
            return self._given_again(claim, use, there)
        if there is not None and there.state == "intended" and _is_mine(claim, there):
            return None
        if there is not None and there.state in ("intended", "unknown"):
            held = self._lost(use, there)
            if held is not None:
                return held
        self.put(use.run_id, use.name, _record("intended", claim, use))
        return None

    def _given_again(self, claim: Claim, use: EffectUse, there: EffectRecord) -> EffectRecord:
        if not _is_mine(claim, there):
            self.put(use.run_id, use.name, replace(_record("done", claim, use), value=there.value))
            self._log(replace(use.entry, outcome="replayed", reason=REPLAYED))
        return there

    def _lost(self, use: EffectUse, there: EffectRecord) -> EffectRecord | None:
        if there.state == "intended":
            self._log(replace(use.entry, outcome="unknown", reason=LOST))
            there = replace(there, state="unknown", value=LOST)
        if "hold" not in (there.policy, use.policy):
            return None
        self.put(use.run_id, use.name, replace(there, policy="hold"))
        self._log(replace(use.entry, outcome="held", reason=HELD))
        return there

    def end(self, claim: Claim, use: EffectUse, record: EffectRecord, entry: JournalEntry) -> bool:
        """See `Transport.end_effect`."""
        there = self.get(use.run_id, use.name)
        mine = there is not None and _is_mine(claim, there)
        if there is not None and mine and there.state in ("done", record.state):
            return True
        lost_by_the_ledger = there is None and self._is_live(claim.run_id, claim.step, claim.token)
        if not mine and not lost_by_the_ledger:
            self.stale += 1
            return False
        self.put(use.run_id, use.name, record)
        self._log(entry)
        return True

    def settle(self, run_id: str, name: str, record: EffectRecord, entry: JournalEntry) -> None:
        """See `Transport.settle_effect`."""
        there = self.get(run_id, name)
        if there is None:
            raise EffectError(absent(run_id, name))
        if there.token == 0 and (there.state, there.value) == (record.state, record.value):
            return
        seen = self._seen(there)
        if seen.state != "unknown":
            raise EffectError(not_unknown(run_id, name, seen.state))
        self.put(run_id, name, replace(there, state=record.state, value=record.value, token=0))
        self._log(entry)

    def all(self, run_id: str, limit: int) -> list[tuple[str, str, EffectRecord]]:
        """See `Transport.effects`."""
        found = [(run, name, self._seen(record)) for run, name, record in self._listed(run_id)]
        return found[:limit]

    def _listed(self, run_id: str) -> Iterator[tuple[str, str, EffectRecord]]:
        for run in [run_id] if run_id else list(self._runs):
            for name, record in self._runs.get(run, {}).items():
                if run_id or (record.policy == "hold" and record.state in ("intended", "unknown")):
                    yield run, name, record

    def _seen(self, record: EffectRecord) -> EffectRecord:
        if record.state == "intended" and not self._is_live(record.run_id, record.step, record.token):
            return replace(record, state="unknown", value=LOST)
        return record


class LedgerPort:
    """The ledger's part of `InMemoryTransport`."""

    _changed: threading.Condition
    _effects: Ledger

    def effect(self, run_id: str, name: str) -> EffectRecord | None:
        """Return the ledger's record of an effect."""
        with self._changed:
            return self._effects.get(run_id, name)

    def begin_effect(self, claim: Claim, use: EffectUse) -> EffectRecord | None:
        """Return the recorded result, or write the intent and return None."""
        with self._changed:
            return self._effects.begin(claim, use)

    def end_effect(self, claim: Claim, use: EffectUse, record: EffectRecord, entry: JournalEntry) -> bool:
        """Write what a begun call came to."""
        with self._changed:
            return self._effects.end(claim, use, record, entry)

    def settle_effect(self, run_id: str, name: str, record: EffectRecord, entry: JournalEntry) -> None:
        """Write by hand what became of an effect that is unknown."""
        with self._changed:
            self._effects.settle(run_id, name, record, entry)

    def effects(self, run_id: str = "", limit: int = 100) -> list[tuple[str, str, EffectRecord]]:
        """Return a run's effects, else the `hold` effects that have no result."""
        with self._changed:
            return self._effects.all(run_id, limit)


def absent(run_id: str, name: str) -> str:
    """Say that there is no such effect."""
    return f"run {run_id} has no effect {name!r} in its ledger; `lumia effects list {run_id}` shows those it has"


def not_unknown(run_id: str, name: str, state: str) -> str:
    """Say that an effect needs no settling."""
    why = {"intended": "is being made right now", "done": "has its result", "failed": "has failed and is made again"}
    return f"effect {name!r} of run {run_id} {why[state]}: only one whose outcome is unknown can be settled"


def _record(state: str, claim: Claim, use: EffectUse) -> EffectRecord:
    return EffectRecord(state, "", use.policy, claim.token, claim.run_id, claim.step)


def _is_mine(claim: Claim, record: EffectRecord) -> bool:
    return (record.token, record.run_id, record.step) == (claim.token, claim.run_id, claim.step)
