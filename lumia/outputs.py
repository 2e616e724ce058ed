"""What a step gave, as digests in its journal entry, so that a replay can tell whether today's code gives the same.

detail["gave"] holds, as far as there is something to tell: `box`, the digest of the Box it handed on changed; `store`,
one digest per store write, in order; `starts`, one digest per run it started, in order. A digest is 12 hex characters;
nothing in it depends on the time, the worker or the run's id. The bytes of dill content don't go in, for the same value
may be written in several ways.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lumia.marks import PRIVATE_PREFIX

if TYPE_CHECKING:
    from lumia.ports import RunRequest, StoreOp


def outputs(box: str | None, starts: Sequence[RunRequest], writes: Sequence[StoreOp]) -> dict[str, Any]:
    """Return the detail a step's entry gets; empty when it gave nothing. box: wire text when changed."""
    gave: dict[str, Any] = {}
    if box is not None:
        gave["box"] = box_digest(box)
    if writes:
        gave["store"] = [write_digest(op) for op in writes]
    if starts:
        gave["starts"] = [start_digest(request) for request in starts]
    return {"gave": gave} if gave else {}


def box_digest(wire: str) -> str:
    """Return the digest of a Box's wire text."""
    return _digest(_lasting(wire))


def write_digest(op: StoreOp) -> str:
    """Return the digest of a store write."""
    return _digest(f"{op.op}\n{op.key}\n{op.field}\n{op.value}\n{op.ttl}\n{op.keep}")


def start_digest(request: RunRequest) -> str:
    """Return the digest of a started run: where it goes, with what, in which lane and when."""
    asked = f"{request.flow}\n{request.id}\n{request.key}\n{request.delay}\n{request.dedup}"
    place = f"\n{request.plan.queue}" if request.plan.queue.startswith(PRIVATE_PREFIX) else ""
    return _digest(f"{asked}\n{request.attached}\n{request.arc}\n{_lasting(request.box)}{place}")


def _lasting(wire: str) -> str:
    """Return what of a wire text is the same whenever the same value is written."""
    if not wire.startswith('{"d":'):
        return wire
    packed = json.loads(wire)
    return json.dumps(["dill", packed.get("t"), packed.get("m")], sort_keys=True)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
