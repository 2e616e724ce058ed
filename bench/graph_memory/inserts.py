"""How many messages a second the graph memory takes, with topics, terms and HNSW in place.

`python -m bench.graph_memory inserts [--messages N]` starts a PostgreSQL of its own (with fsync off, as all tests of
this repository) and measures batches of fifty, one message per transaction, the latter in eight threads, and eight
threads as in a worker, where each waits for its message and those that wait are written together. Embedding is not part
of it: the vectors are random, around centres as chats have them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from handlers.memory_graph import together, writing
from handlers.memory_graph.database import Database
from handlers.memory_graph.types import Observed, Origin, Scope
from handlers.memory_graph.writing import Observation
from tests.support import servers

DIMENSION, CENTRES, WORDS, TOPICS, CHATS, PEOPLE = 384, 200, 5000, 4000, 20, 40
TERMS_OF_TEXT, TOPICS_OF_TEXT, BATCH, THREADS = 15, 4, 50, 8
NOW = 1_700_000_000.0


def observations(count: int, seed: int = 0) -> list[Observation]:
    """Return messages of random words in twenty chats."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(CENTRES, DIMENSION))
    return [_observation(number, chance, centres, seed) for number in range(count)]


def _observation(number: int, chance: np.random.Generator, centres: np.ndarray, seed: int) -> Observation:
    vector = centres[number % CENTRES] + chance.normal(size=DIMENSION) * 0.5
    words = [f"w{word}" for word in chance.zipf(1.3, TERMS_OF_TEXT) % WORDS]
    topics = [(f"topic {one}", 1.0 - 0.1 * at) for at, one in enumerate(chance.zipf(1.3, TOPICS_OF_TEXT) % TOPICS)]
    person = f"p{number % PEOPLE}"
    return Observation(
        Scope("bench", f"chat {number % CHATS}"),
        Observed(" ".join(words), sender=person, sender_name=person, message_id=f"{seed}-{number}", time=NOW + number),
        (vector / np.linalg.norm(vector)).astype(np.float32),
        Origin(f"run-{seed}-{number}"),
        {word: words.count(word) for word in words},
        topics,
    )


def _written(database: Database, batch: Sequence[Observation]) -> list[writing.Written]:
    with database.transaction() as connection:
        return writing.observe_many(connection, batch, embedder=database.embedder_id, now=NOW)


def rate(database: Database, messages: Sequence[Observation], batch: int, threads: int = 1) -> float:
    """Return how many messages a second were written, in batches; batch 0: one by one as the bot does, those that
    threads write at the same moment together."""
    size = batch or 1
    batches = [messages[at : at + size] for at in range(0, len(messages), size)]
    group = together.Group[Observation, writing.Written](lambda given: _written(database, given))
    write = group.write if batch == 0 else None
    database.prepare()
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda one: write(one[0]) if write else _written(database, one), batches))
    return len(messages) / (time.perf_counter() - began)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--messages", type=int, default=3000, help="messages of each kind")


def run(given: argparse.Namespace) -> None:
    """Measure and print one line each."""
    with tempfile.TemporaryDirectory() as folder, servers.postgres(Path(folder)) as server:
        database = Database(server.url, model="bench", dimension=DIMENSION)
        for seed, (shown, batch, threads) in enumerate(
            [(f"batches of {BATCH}", BATCH, 1), (f"batches of {BATCH}, two threads", BATCH, 2),
             ("one per transaction", 1, 1), (f"one per transaction, {THREADS} threads", 1, THREADS),
             (f"as the bot does, {THREADS} threads", 0, THREADS)]
        ):  # fmt: skip
            messages = observations(given.messages, seed)
            print(f"{shown:<32} {rate(database, messages, batch, threads):8.0f} messages/s", flush=True)
        database.close()
