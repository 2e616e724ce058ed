"""The journal and its archive as `lumia status` and `lumia doctor` show them, read over a bare connection."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lumia.errors import BackendUnavailableError
from tasks.archive.measures import Alarm, Measures, measure
from tasks.archive.place import FOLDER
from tasks.keys import PREFIX
from tasks.supervise.findings import Finding, ok, risk
from tasks.supervise.resp import connect

LATE_SECONDS = 60.0
LATE_FILES_SECONDS = 1200.0
"""Files are written every ten minutes at least where there is no database."""
SPILL_ROOM = 512 << 20


def measured(url: str) -> Measures | None:
    """Return the figures, None when the server does not answer, which others report."""
    if not url:
        return None
    with suppress(BackendUnavailableError, ValueError, TypeError, KeyError), connect(url) as redis:
        return measure(redis.ask, PREFIX)
    return None


def as_dict(url: str) -> dict[str, Any]:
    """Return what `lumia status --json` says of the journal, with the alarms; {} when nothing is known."""
    found = measured(url)
    return {} if found is None else {**found.as_dict(), "alarms": [asdict(alarm) for alarm in found.alarms]}


def lines(url: str) -> list[str]:
    """Return the alarms as lines for a terminal."""
    found = measured(url)
    return [] if found is None else [f"! {_told(alarm)} → {alarm.fix}" for alarm in found.alarms]


def check_journal(root: Path, url: str) -> Iterator[Finding]:
    """Yield what an operator should know of the journal. url: of the Redis in use, "" for none."""
    found = measured(url)
    if found is None:
        return
    for alarm in found.alarms:
        yield risk("journal", _told(alarm), alarm.fix)
    late = LATE_FILES_SECONDS if found.database == "none" else LATE_SECONDS
    shown = f"{found.bytes / (1 << 20):.1f} MiB in Redis, {found.lag} entries to be archived"
    if found.lag_seconds > late:
        yield risk(
            "archive", f"{shown}, the oldest for {found.lag_seconds:.0f} s", "see that a worker runs, and its log"
        )
    elif found.database == "away":
        yield risk("archive", f"{shown}; the database does not answer", "start it, or correct LUMIA_DATABASE_URL")
    else:
        kept = {"none": f"in files in {root / FOLDER}", "ok": "in the database"}.get(
            found.database, "nothing archived yet"
        )
        yield ok("archive", f"{shown}; {kept}")
    if found.database in ("none", "away"):
        yield from _room(root, found)


def _room(root: Path, found: Measures) -> Iterator[Finding]:
    free = shutil.disk_usage(root).free
    if free < SPILL_ROOM:
        yield risk("archive files", f"{free >> 20} MiB free for them at {root}, {found.file_bytes >> 20} MiB used",
                   "free space, or start the database")  # fmt: skip


def _told(alarm: Alarm) -> str:
    times = f" ({alarm.count} times)" if alarm.count > 1 else ""
    return f"{alarm.name}: {alarm.what}{times}"
