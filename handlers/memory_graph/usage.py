"""What stood in a prompt grows stronger (spec §11.3 step 5): the work of the consumer behind `Memory.used`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lumia

from . import engine, facts
from .types import Origin


def strengthen(used: Mapping[str, Any]) -> dict[str, Any]:
    """Strengthen the topics and instances of one prompt, each once per run; returns how many counted.

    used: what `Memory.used` sent. Raises `MemoryUnavailableError`.
    """
    origin = Origin(str(used["run_id"]), int(used["step"]), int(used["ordinal"]))
    with engine.current().database.transaction() as connection:
        count = facts.strengthen(
            connection, engine.scope(str(used["chat"])), used["topics"], used["instances"],
            origin=origin, now=lumia.system.now(),
        )  # fmt: skip
    return {"strengthened": count}
