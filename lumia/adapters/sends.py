"""The ledger of what is sent: each send is in one state, and every account counts how many are in which.

A change of state is a part of the commit that ends the step, also of one that failed; outside of a step it happens at
once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lumia import runtime
from lumia.adapters.names import STORE, account_field, key_of
from lumia.context import active
from lumia.store import Store

if TYPE_CHECKING:
    from lumia.ports import StoreOp, Transport
    from lumia.runtime import Runtime

QUEUED, SENT, REJECTED, UNKNOWN, HELD, RETRYING, FAILED = (
    "queued", "sent", "rejected", "unknown", "held", "retrying", "failed",
)  # fmt: skip
"""queued: waits for its turn. retrying: surely not sent yet, tried again. sent, rejected (the platform won't have it),
failed (surely not sent, every try failed). held: it may have arrived, so it isn't sent again until someone settles it.
unknown: it may have arrived, and every try ended so."""
STATES = (QUEUED, SENT, REJECTED, UNKNOWN, HELD, RETRYING, FAILED)
KEEP = 7 * 86400.0
"""Seconds for which a send and its receipts are kept."""
_COUNTS, _SEND, _OF_RUN = "sends", "send", "send of run"


@dataclass(frozen=True)
class Send:
    """A message on its way out. why: what the last try came to. time: seconds since 1970 of its last change."""

    send_id: str
    adapter: str
    account: str
    platform: str
    kind: str
    chat: str
    state: str = QUEUED
    why: str = ""
    time: float = 0.0

    @property
    def where(self) -> str:
        """Return its chat as people read it."""
        return f"{self.kind} {self.chat} by {self.adapter}/{self.account}"


def find(send_id: str) -> Send | None:
    """Return a send, None when it is unknown or no longer kept."""
    return _parsed(Store(STORE).get(_SEND, scope=send_id))


def of_run(transport: Transport, run_id: str) -> Send | None:
    """Return the send that a run was to deliver and did not."""
    send_id = _read(transport, key_of(_OF_RUN, run_id))
    return None if send_id is None else _parsed(_read(transport, key_of(_SEND, send_id)))


def _read(transport: Transport, key: str) -> Any:
    kind, text = transport.read(key)
    return json.loads(text) if kind == "value" else None


def _parsed(value: Any) -> Send | None:
    return Send(**value) if isinstance(value, Mapping) else None


def counts(adapter: str, account: str) -> dict[str, int]:
    """Return how many sends of an account are in which state; those in none are left out."""
    fields = Store(STORE).fields(_COUNTS, scope=account_field(adapter, account))
    return {state: int(fields[state]) for state in (*STATES, *sorted(set(fields) - {*STATES})) if fields.get(state)}


def moved(send: Send, state: str, why: str, now: float, *, fresh: bool = False) -> tuple[Send, list[StoreOp]]:
    """Return a send in another state, and the writes that make it so. fresh: it wasn't counted anywhere before."""
    from lumia.ports import StoreOp  # see lumia.store

    after = replace(send, state=state, why=why, time=round(now, 3))
    ops = [StoreOp("set", key_of(_SEND, send.send_id), json.dumps(asdict(after)), ttl=KEEP)]
    name = key_of(_COUNTS, account_field(send.adapter, send.account))
    if not fresh and state != send.state:
        ops.append(StoreOp("add", name, "-1", field=send.state))
    if fresh or state != send.state:
        ops.append(StoreOp("add", name, "1", field=state))
    return after, ops


def settled(bot: Runtime, run_id: str, outcome: str, why: str) -> None:
    """Move the send of a run whose effect was settled by hand: it was made (`done`), or it was not (`failed`)."""
    _move(bot, run_id, SENT if outcome == "done" else FAILED, why or "settled by hand: it was made")


def dropped(bot: Runtime, run_id: str) -> None:
    """Move the send of a run whose dead letter was dropped: nobody finds out any more whether it arrived."""
    _move(bot, run_id, UNKNOWN, "its dead letter was dropped")


def _move(bot: Runtime, run_id: str, state: str, why: str) -> None:
    send = of_run(bot.transport, run_id)
    if send is not None and send.state in (HELD, UNKNOWN):
        bot.transport.write(moved(send, state, why, bot.clock.now())[1])


def named(send: Send, run_id: str) -> StoreOp:
    """Return the write by which `of_run` finds a send."""
    from lumia.ports import StoreOp  # see lumia.store

    return StoreOp("set", key_of(_OF_RUN, run_id), json.dumps(send.send_id), ttl=KEEP)


def write(ops: Sequence[StoreOp], *, failed: bool = False) -> None:
    """Make writes with the commit of the running step, of one that is about to fail with `failed`, or at once."""
    step = active("lumia.adapters")
    if step is None:
        runtime.current().transport.write(ops)
    elif failed:
        step.kept.extend(ops)
    else:
        step.writes.extend(ops)
