"""Entries as rows of a table and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from lumia.history import RunSummary, Tally, Usage, root_of
from lumia.journal import JournalEntry
from tasks.archive.rows import StreamRow, as_sql, cursor_of, position

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


def record(entry: JournalEntry, part: int, text: str) -> Record:
    """Return an entry as a row. text: its JSON in the stream, which the end of a run that shares a row has not."""
    ms, number = position(entry.cursor)
    packed = json.loads(entry.dump() if part else text)
    box = entry.detail.get("box")
    kept = as_sql(box) if isinstance(box, str) else None
    return Record(
        ms, number, part, as_sql(entry.kind), as_sql(entry.run_id), as_sql(root_of(entry)),
        _body(packed, boxed=kept is not None), kept,
    )  # fmt: skip


def _body(packed: dict[str, Any], *, boxed: bool) -> str:
    """Return the JSON without what has columns; id and key stay where no column can hold them exactly."""
    for name in ("n", "r", "o"):
        packed.pop(name, None)
    for name in ("i", "k"):
        if name in packed and as_sql(packed[name]) == packed[name]:
            del packed[name]
    if boxed and isinstance(packed.get("d"), dict):
        packed["d"].pop("box", None)
    return json.dumps(packed, separators=(",", ":"))


def entry_of(row: Mapping[str, Any]) -> JournalEntry:
    """Return the entry of a row of `entries` joined with its run's `id` and `key`."""
    cursor = cursor_of(row["ms"], row["number"])
    packed = {"i": row["id"] or "", "k": row["key"] or "", **json.loads(row["body"])}
    text = json.dumps({**packed, "n": row["kind"], "r": row["run_id"], "o": row["root_id"]})
    entry = JournalEntry.load(text, cursor=cursor, time=row["ms"] / 1000)
    return replace(entry, detail={**entry.detail, "box": row["box"]}) if row["box"] is not None else entry


def run_row(tally: Tally) -> tuple[Any, ...]:
    """Return a run's line of `runs`: its summary with times in whole ms, the message id in its Box, its sums."""
    run = tally.summary()
    texts = (run.run_id, run.root_id, run.flow, run.id, run.key, run.cause, run.outcome, run.reason)
    return (
        *map(as_sql, texts), round(run.started * 1000), round(run.ended * 1000), run.steps, run.attempts,
        run.tokens_in, run.tokens_out, run.cost, run.dead, message_of(tally.box), _sums(tally),
    )  # fmt: skip


def _sums(tally: Tally) -> str:
    """Return what a line does not tell of the sums it was made from: b its start was seen, s steps, n and c usage."""
    noted = [[step, attempt, *_figures(used)] for (step, attempt), used in tally.noted.items()]
    called = [[step, *_figures(used)] for step, used in tally.called.items()]
    told = {"b": int(tally.begun), "s": sorted(tally.steps), "n": noted, "c": called}
    return json.dumps({name: value for name, value in told.items() if value}, separators=(",", ":"))


def _figures(used: Usage) -> tuple[int, int, float]:
    return used.tokens_in, used.tokens_out, used.cost


def tally_of(row: Mapping[str, Any]) -> Tally:
    """Return the sums of a row of `runs`, to which entries can be added; `box` is not among them."""
    run, sums = summary_of(row), json.loads(row["sums"])
    facts = {"root_id": run.root_id, "id": run.id, "key": run.key, "cause": run.cause, "steps": run.steps,
             "attempts": run.attempts, "dead": run.dead}  # fmt: skip
    if "b" in sums:
        facts |= {"flow": run.flow, "started": run.started}
    if run.ended:
        facts |= {"outcome": run.outcome, "reason": run.reason, "ended": run.ended}
    noted = {(step, attempt): Usage(*used) for step, attempt, *used in sums.get("n", ())}
    called = {step: Usage(*used) for step, *used in sums.get("c", ())}
    return Tally(run.run_id, "", facts, set(sums.get("s", ())), noted, called)


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


def readable(rows: Iterable[StreamRow]) -> list[tuple[JournalEntry, int, str]]:
    """Return the entries of stream rows with their part and their JSON; what can't be read is left out."""
    return [(entry, part, row.fields["j"]) for row in rows for part, entry in enumerate(row.entries())]
