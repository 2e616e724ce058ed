"""What a reduced run's record has lost, from the archive: its steps, and the Box it began with."""

from __future__ import annotations

import logging
from dataclasses import replace

from lumia.errors import LumiaError
from lumia.history import History, box_of
from lumia.journal import JournalEntry
from lumia.ports import RunRecord, StepRecord

log = logging.getLogger("lumia")


def completed(record: RunRecord, archive: History | None) -> RunRecord:
    """Return the record with its steps and first Box; without them when the archive can't be asked now."""
    if archive is None:
        return record
    try:
        tree = archive.entries(record.root_id)
    except LumiaError as error:
        log.warning("run %s is shown without its steps: %s", record.run_id, error)
        return record
    own = [entry for entry in tree if entry.run_id == record.run_id]
    steps = tuple(_step(entry) for entry in own if entry.kind == "step")
    cause = next((str(entry.detail["cause"]) for entry in own if "cause" in entry.detail), "")
    box = next(filter(None, map(box_of, own)), "")
    return replace(record, steps=steps, box=box, cause=cause, attempt=steps[-1].attempt if steps else 0)


def _step(entry: JournalEntry) -> StepRecord:
    return StepRecord(entry.handler, entry.outcome, entry.reason, entry.ms, entry.attempt)
