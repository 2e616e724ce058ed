"""Saying by hand what became of an effect whose outcome is unknown (docs/effects.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lumia import redaction
from lumia.box import Box
from lumia.compressed import fitted, unpack
from lumia.errors import EffectError
from lumia.journal import JournalEntry, clean
from lumia.ports import EffectRecord
from lumia.redaction import cleaned_wire

if TYPE_CHECKING:
    from lumia.runtime import Runtime


def settle_done(bot: Runtime, run_id: str, name: str, value: Any) -> None:
    """Record that the call was made and gave `value`: whoever tries the step again gets it.

    name: "step:key" as in the ledger. Raises `EffectError` unless the effect is there and unknown.
    """
    wire = Box.any(value).dump(bot.secret)
    shown, changed = cleaned_wire(wire, bot.redact, bot.secret)
    detail = {"value": fitted(shown), **({"hidden": True} if changed else {})}
    _settle(bot, run_id, name, EffectRecord("done", fitted(wire)), "", detail)


def settle_failed(bot: Runtime, run_id: str, name: str, reason: str = "") -> None:
    """Record that the call was not made, or had no effect: a new try makes it. Raises what `settle_done` does."""
    text = clean(bot.redact(reason or "settled by hand: it was not made"))
    _settle(bot, run_id, name, EffectRecord("failed", text), text, {})


def _settle(bot: Runtime, run_id: str, name: str, record: EffectRecord, reason: str, detail: dict[str, Any]) -> None:
    index, _, key = name.partition(":")
    if not index.isdecimal() or not key:
        raise EffectError(
            f"an effect is named STEP:KEY, e.g. '0:charge', got {name!r}; `lumia effects list` shows them"
        )
    run = bot.transport.run(run_id)
    root, id_, lane = (run.root_id, run.id, run.key) if run is not None else ("", "", "")
    about = {"effect": key, "by": "hand", **detail}
    entry = JournalEntry(
        "effect", run_id, root, id_, lane, int(index), outcome=record.state, reason=reason, worker=bot.worker,
        detail=about,
    )  # fmt: skip
    bot.transport.settle_effect(run_id, name, record, entry)
    if key.startswith("send "):
        from lumia.adapters import sends  # only who sends needs it

        sends.settled(bot, run_id, record.state, reason)


def shown(bot: Runtime, record: EffectRecord) -> Any:
    """Return a record's result as it may be printed, or the reason when it has none."""
    if record.state != "done":
        return record.value
    return redaction.shown(Box.load(unpack(record.value), bot.secret), bot.redact)
