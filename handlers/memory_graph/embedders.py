"""Which models' vectors the database holds: one active embedder, and while it is being changed the next one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .errors import EmbedderError
from .types import Calibration

if TYPE_CHECKING:
    import psycopg

ACTIVE, NEXT, RETIRED = "active", "next", "retired"


@dataclass(frozen=True)
class Stored:
    """A row of memory_embedders."""

    id: int
    model: str
    dimension: int
    state: str
    calibration: Calibration


def stored(connection: psycopg.Connection[Any]) -> list[Stored]:
    """Return all embedders the database knows, the active one first."""
    rows = connection.execute(
        "SELECT id, model, dimension, state, calibration FROM memory_embedders ORDER BY state, id"
    ).fetchall()
    return [
        Stored(id, model, dimension, state, Calibration(**calibration) if calibration else Calibration())
        for id, model, dimension, state, calibration in rows
    ]


def claim_active(
    connection: psycopg.Connection[Any], model: str, dimension: int, calibration: Calibration
) -> int:  # fmt: skip
    """Return the number of the active embedder, which is this one; an empty memory takes it as its first.

    Raises `EmbedderError` when the vectors there are another model's.
    """
    known = stored(connection)
    active = next((one for one in known if one.state == ACTIVE), None)
    if active is None:
        row = connection.execute(
            "INSERT INTO memory_embedders (model, dimension, state, calibration) VALUES (%s, %s, 'active', %s) "
            "ON CONFLICT DO NOTHING RETURNING id",
            (model, dimension, as_json(calibration)),
        ).fetchone()
        return int(row[0]) if row else claim_active(connection, model, dimension, calibration)
    if (active.model, active.dimension) != (model, dimension):
        raise EmbedderError(
            f"the memory holds vectors of {active.model} ({active.dimension} numbers), the configured embedder is "
            f"{model} ({dimension}); run `lumia memory rebuild` to embed everything anew, or configure the old model"
        )
    return active.id


def as_json(calibration: Calibration) -> Any:
    """Return a calibration as a database takes it."""
    from psycopg.types.json import Jsonb

    return Jsonb(asdict(calibration))
