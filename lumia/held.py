"""Held sends: a run that replays a recorded one live does everything but reach a chat, and so does all it starts.

A run with `hold` gives it to its children, detached ones and retries included. A `msg.send` (or edit, or delete) of
it has this one step, which ends it as `stopped` with the reason; an effect of kind `send` skips the step it is called
in.
"""

from __future__ import annotations

from lumia.marks import DEFAULT_QUEUE
from lumia.routes import DEFAULT_RETRY, Plan, PlanStep

HELD = "held: replay without --send"
HANDLER = "lumia.held"
SENDS = ("msg.send", "msg.edit", "msg.delete")
PLAN = Plan.of([PlanStep(HANDLER, "pipe", "", DEFAULT_QUEUE, None, False, DEFAULT_RETRY)])
"""A pipeline whatever the flow of the run: what it ends as is `stopped`, and nobody else sees the event."""


def is_send(id: str) -> bool:
    """Tell whether an id is that of a message to a chat, or a change to one, alone or with a destination."""
    return any(id == send or id.startswith((f"{send},", f"{send} ")) for send in SENDS)


def plan_of(found: Plan, id: str, *, hold: bool) -> Plan:
    """Return the plan of a run: the one that was found, unless it is a send and sends are held."""
    return PLAN if hold and is_send(id) else found


def held(content: object) -> None:
    """End a send without anybody having seen it."""
    from lumia import utils

    utils.stop(HELD)
