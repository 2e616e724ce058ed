"""A memory in a schema of its own, and texts whose vectors say how alike they are."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import psycopg
import pytest

from handlers.memory_graph.database import Database
from tests.handlers.memory_graph.samples import DIMENSION, MODEL

_numbers = itertools.count(1)


@pytest.fixture
def schema(postgres_url: str) -> Iterator[str]:
    """The name of a schema nobody else uses; it is dropped afterwards."""
    name = f"memory_{os.getpid()}_{next(_numbers)}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture
def database(postgres_url: str, schema: str) -> Iterator[Database]:
    """An empty memory."""
    found = Database(postgres_url, model=MODEL, dimension=DIMENSION, schema=schema)
    yield found
    found.close()
