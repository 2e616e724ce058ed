"""Entries as rows of a table and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from typing import Any, NamedTuple

from lumia.history import RunSummary, Tally, root_of
from lumia.journal import JournalEntry
from tasks.archive.rows import as_sql, cursor_of, position

RUN_COLUMNS = ("run_id", "root_id", "flow", "id", "key", "cause", "outcome", "reason", "started", "ended", "steps",
               "attempts", "tokens_in", "tokens_out", "cost", "dead")  # fmt: skip


class Record(NamedTuple):
    """An entry as it stands in `entries`. part: 1 for the end that shares its row of the stream with a step.

    body: the entry's JSON without what other columns hold.
    """

    ms: int
    number: int
    part: int
    kind: str
    run_id: str
    root_id: str
    body: str
    box: str | None


def record(entry: JournalEntry, part: int) -> Record:
    """Return an entry as a row."""
    ms, number = position(entry.cursor)
    box = entry.detail.get("box")
    kept = as_sql(box) if isinstance(box, str) else None
    return Record(
        ms, number, part, as_sql(entry.kind), as_sql(entry.run_id), as_sql(root_of(entry)), _body(entry, kept), kept
    )


def _body(entry: JournalEntry, box: str | None) -> str:
    """Return the entry's JSON without kind, run, root, id, key and Box, unless a column can't hold id or key exactly."""
    detail = {name: value for name, value in entry.detail.items() if name != "box" or box is None}
    kept = {name: "" for name in ("id", "key") if as_sql(getattr(entry, name)) == getattr(entry, name)}
    bare: JournalEntry = replace(entry, kind="", run_id="", root_id="", detail=detail, **kept)
    return bare.dump()


def entry_of(row: Mapping[str, Any]) -> JournalEntry:
    """Return the entry of a row of `entries` joined with its run's `id` and `key`."""
    cursor = cursor_of(row["ms"], row["number"])
    packed = {"i": row["id"] or "", "k": row["key"] or "", **json.loads(row["body"])}
    text = json.dumps({**packed, "n": row["kind"], "r": row["run_id"], "o": row["root_id"]})
    entry = JournalEntry.load(text, cursor=cursor, time=row["ms"] / 1000)
    return replace(entry, detail={**entry.detail, "box": row["box"]}) if row["box"] is not None else entry


def run_row(tally: Tally) -> tuple[Any, ...]:
    """Return a run's line of `runs`: its summary, times in whole milliseconds, and the message id in its Box."""
    run = tally.summary()
    texts = tuple(as_sql(value) if isinstance(value, str) else value for value in astuple(run))
    started, ended = round(run.started * 1000), round(run.ended * 1000)
    return (*texts[:8], started, ended, *texts[10:], message_of(tally.box))


def message_of(box: str) -> str:
    """Return the id of the chat message that a Box's wire text is of, "" for none."""
    if not box.startswith('{"j":') or '"message_id"' not in box:
        return ""
    try:
        content = json.loads(box)["j"]
    except (ValueError, KeyError, RecursionError):
        return ""
    found = content.get("message_id") if isinstance(content, dict) else None
    return message_key(found) if isinstance(found, str) else ""


def message_key(message: str) -> str:
    """Return a message id as it is looked up: no index takes texts of any length."""
    return as_sql(message)[:200]


def summary_of(row: Mapping[str, Any]) -> RunSummary:
    """Return the summary of a row of `runs`."""
    values = {name: row[name] for name in RUN_COLUMNS}
    return RunSummary(**{**values, "started": row["started"] / 1000, "ended": row["ended"] / 1000})


def readable(rows: Iterable[Any]) -> list[tuple[JournalEntry, int]]:
    """Return the entries of stream rows with their part; what can't be read is left out."""
    return [(entry, part) for row in rows for part, entry in enumerate(row.entries())]
