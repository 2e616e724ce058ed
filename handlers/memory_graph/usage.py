"""What stood in a prompt grows stronger (spec §11.3 step 5): the consumer behind `Memory.used`."""

from __future__ import annotations

from typing import Any

import lumia

from . import engine, facts
from .service import USED
from .types import Origin


@lumia.event.consumer(USED)
def strengthen_used(content: lumia.Box[dict[str, Any]]) -> None:
    """Strengthen the topics and instances of one prompt, once per run; a database that is away is tried again."""
    used = content.into()
    if not engine.wanted():
        return
    origin = Origin(str(used["run_id"]), int(used["step"]), int(used["ordinal"]))
    with engine.current().database.transaction() as connection:
        count = facts.strengthen(
            connection, engine.scope(str(used["chat"])), used["topics"], used["instances"],
            origin=origin, now=lumia.system.now(),
        )  # fmt: skip
    lumia.annotate(strengthened=count)
