"""The effect ledger in Redis: two script calls per effect, each fenced by the claim that makes it (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumia.errors import EffectError, StaleClaimError
from lumia.inmemory_effects import absent, not_unknown
from lumia.journal import JournalEntry
from lumia.ports import HELD, LOST, REPLAYED, Claim, EffectRecord, EffectUse, Limits

KEEP_SECONDS = 7 * 24 * 3600
"""How long the ledger of a run that never ends is kept; one that has ended takes its run's time."""


class LedgerPort:
    """The ledger's part of `RedisTransport`, which it is mixed into."""

    limits: Limits
    call: Callable[..., Any]
    _insist: Callable[..., Any]
    _settled: Callable[[Claim], None]
    _asked: Callable[..., Any]
    _key: Callable[[str, str], str]

    def effect(self, run_id: str, name: str) -> EffectRecord | None:
        """Return the ledger's record of an effect."""
        text = self._asked("hget", self._key("fx", run_id), name)
        return None if text is None else parsed(text)

    def begin_effect(self, claim: Claim, use: EffectUse) -> EffectRecord | None:
        """Return the recorded result, or write the intent and return None."""
        self._settled(claim)
        reply = self._insist(
            "effect_begin", *_place(claim, use), use.policy, use.entry.dump(), self.limits.journal_bytes,
            KEEP_SECONDS, LOST, HELD, REPLAYED,
        )  # fmt: skip
        if reply[0] == b"stale":
            raise StaleClaimError(f"run {claim.run_id}, step {claim.step}: taken over by another worker")
        return None if reply[0] == b"go" else EffectRecord(reply[0].decode(), reply[1].decode())

    def end_effect(self, claim: Claim, use: EffectUse, record: EffectRecord, entry: JournalEntry) -> bool:
        """Write what a begun call came to."""
        what = (record.state, record.policy, record.value, entry.dump(), self.limits.journal_bytes)
        return bool(self._insist("effect_end", *_place(claim, use), *what) == b"ok")

    def settle_effect(self, run_id: str, name: str, record: EffectRecord, entry: JournalEntry) -> None:
        """Write by hand what became of an effect that is unknown."""
        what = (record.state, record.value, entry.dump(), self.limits.journal_bytes)
        state = self.call("effect_settle", run_id, name, *what)
        if state == b"absent":
            raise EffectError(absent(run_id, name))
        if state != b"ok":
            raise EffectError(not_unknown(run_id, name, state.decode()))

    def effects(self, run_id: str = "", limit: int = 100) -> list[tuple[str, str, EffectRecord]]:
        """Return a run's effects, else the `hold` effects that have no result."""
        reply = self.call("effect_list", run_id, limit, LOST)
        return [
            (run.decode(), name.decode(), parsed(text))
            for run, name, text in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        ]


def parsed(text: bytes) -> EffectRecord:
    """Return the record a ledger's text stands for."""
    head, _, value = text.decode().partition("\n")
    state, token, policy, run_id, step = head.split(" ")
    return EffectRecord(state, value, policy, int(token), run_id, int(step))


def _place(claim: Claim, use: EffectUse) -> tuple[Any, ...]:
    return claim.run_id, claim.step, claim.token, use.run_id, use.name
