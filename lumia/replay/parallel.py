"""Replaying many trees on all cores: each process takes its share and sends back what it found."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from lumia.errors import ReplayError
from lumia.replay.difference import TreeReplay
from lumia.replay.engine import Replayer
from lumia.replay.records import RecordedTree
from lumia.routes import RouteTable
from lumia.runtime import Runtime

FEW = 200
"""Trees up to which a second process costs more than it saves."""
BATCH = 100


def replay_all(bot: Runtime, table: RouteTable, trees: Sequence[RecordedTree], jobs: int = 0) -> Iterator[TreeReplay]:
    """Replay trees with the handlers of `bot`; jobs: how many processes, 0 for one per core.

    With more than one, results come in no particular order. Raises `ReplayError` when a handler ends its process.
    """
    number = min(jobs or os.cpu_count() or 1, max(1, len(trees) // FEW) if not jobs else len(trees))
    # A fork takes no other thread along, and whatever lock one holds would stay locked for ever.
    if number <= 1 or threading.active_count() > 1:
        yield from Replayer(bot, table).replay_all(trees)
        return
    context = multiprocessing.get_context("fork")
    gc.freeze()  # so that the children don't copy every page just by looking for garbage
    children = []
    for share in range(number):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(bot, table, trees[share::number], writer), daemon=True)
        process.start()
        writer.close()
        children.append((process, reader))
    gc.unfreeze()
    try:
        yield from _gathered([reader for _, reader in children])
    finally:
        for process, _ in children:
            process.terminate()
            process.join()


def _work(bot: Runtime, table: RouteTable, trees: Sequence[RecordedTree], writer: Connection) -> None:
    batch: list[TreeReplay] = []
    for done in Replayer(bot, table).replay_all(trees):
        batch.append(done)
        if len(batch) >= BATCH:
            writer.send(batch)
            batch = []
    writer.send(batch)
    writer.send(None)


def _gathered(readers: list[Connection]) -> Iterator[TreeReplay]:
    while readers:
        for reader in wait(readers):
            assert isinstance(reader, Connection)
            try:
                batch = reader.recv()
            except EOFError:
                raise ReplayError(
                    "a process that replays has ended in the middle: a handler exits or kills it; replay with --jobs 1 "
                    "to see which run it was"
                ) from None
            if batch is None:
                readers.remove(reader)
            else:
                yield from batch
