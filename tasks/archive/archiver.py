"""The archiver: takes the journal from the broker's stream into the database, or into files (docs/archive.md).

Always in this order, so that a kill at any point loses nothing and doubles nothing: keep the rows, say how far the
archive has come, reduce the runs that ended before, trim the stream.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from lumia.errors import BackendUnavailableError
from lumia.journal import JournalEntry
from tasks.archive.database import Database
from tasks.archive.place import Place
from tasks.archive.rows import StreamRow, cursor_of, position
from tasks.archive.settings import DAY, ArchiveSettings
from tasks.archive.spill import Spill, SpillFile, is_full, stretch
from tasks.archive.stream import Stream

AWAY, FULL, BROKEN = "journal database", "journal files", "journal archive"
"""Names of alarms; `journal full` is raised by the scripts."""
LOST = ("journal full", FULL)
"""Alarms about what is lost stay for a day after it happened last; the others end with what they tell of."""
BATCH_ROWS, BATCH_BYTES = 1000, 4 << 20
FEW_ROWS = 50
"""A database that is too slow for a whole batch gets smaller ones."""
FILE_ROWS, FILE_BYTES = 20_000, 16 << 20
FILE_SECONDS = 600.0
"""Without a database, a file is written when there is this much for it, or this old."""
RETRY_SECONDS = 5.0
SETTLED_SECONDS = 5.0
"""What a run's last commit may take to be sent again: even under pressure it is not reduced before."""
LOW = 0.75
"""Past its soft limit the stream is cut to this share of it."""
FORGET_SECONDS = 60.0
FORGET_BUDGET = 1.0

log = logging.getLogger("lumia")


class Archiver:
    """One process's turn at archiving; `turn` does a bounded piece of work and says when to come again."""

    def __init__(self, stream: Stream, place: Place, settings: ArchiveSettings) -> None:
        self._stream = stream
        self._settings = settings
        self._database = Database(place.url) if place.url else None
        self._spill = Spill(place.folder)
        self._retry = 0.0
        self._forget = 0.0
        self._told: dict[str, float] = {}
        self._away = ""
        self._reached = False
        self._rows = BATCH_ROWS

    def turn(self) -> float:
        """Do one piece of work; returns the seconds until the next, 0 when there is more at once."""
        if not self._stream.lease():
            return self._help()
        busy = self._archive()
        busy |= self._compact()
        busy |= self._trim()
        self._tell()
        return 0.0 if busy else 0.5

    def close(self) -> None:
        """Let another process go on at once."""
        with suppress(BackendUnavailableError):
            if self._stream.lease(1.0):
                self._stream.lease(0)
        if self._database is not None:
            self._database.close()

    # --- keeping

    def _archive(self) -> bool:
        if self._database is None:
            return self._to_files(self._due_for_file())
        try:
            if time.monotonic() >= self._retry:
                return self._to_database(self._database)
        except BackendUnavailableError as error:
            self._retry = time.monotonic() + RETRY_SECONDS
            self._away, self._reached = str(error), False
            self._rows = max(FEW_ROWS, self._rows // 2)
        if not self._pressed() or not self._worth_a_file():
            return False
        self._stream.alarm(AWAY, f"journal entries go to files in {self._spill.folder}: {self._away}",
                           "start the database or correct LUMIA_DATABASE_URL; the files are loaded then")  # fmt: skip
        return self._to_files(True)

    def _to_database(self, database: Database) -> bool:
        if self._load(database) and not self._pressed():
            return True
        since = self._stream.archived()
        rows = self._stream.read(since, self._batch(self._rows))
        if rows:
            database.write(rows)
            self._rows = min(BATCH_ROWS, 2 * self._rows)
            self._stream.advance(since, rows[-1].cursor, len(rows))
        if not self._reached:
            self._reached, self._away = True, ""
            self._stream.settle(AWAY)
            self._stream.settle(BROKEN)
        self._expire(database)
        return bool(rows)

    def _load(self, database: Database) -> bool:
        """Load the oldest file, if there is one; tells whether."""
        for file in self._spill.files()[:1]:
            try:
                rows = file.rows()
            except ValueError as error:
                aside = self._spill.set_aside(file)
                self._stream.alarm(FULL, f"{error}; it is {aside.name} now", "restore it from a backup, or delete it")
                return True
            for start in range(0, len(rows), BATCH_ROWS):
                self._stream.lease()
                database.write(rows[start : start + BATCH_ROWS])
            self._spill.remove(file)
            log.info("journal file %s is in the database", file.path.name)
            return True
        return False

    def _help(self) -> float:
        """Another process archives, perhaps on another machine: what lies here only this machine can load."""
        if self._database is None or time.monotonic() < self._retry or self._stream.holder_host() == self._spill.host:
            return 2.0
        if self._spill.files():
            self._retry = time.monotonic() + RETRY_SECONDS
            with suppress(BackendUnavailableError):
                self._load(self._database)
        return 2.0

    def _batch(self, rows: int = BATCH_ROWS, size: int = BATCH_BYTES) -> int:
        """Return how many rows, `rows` at most, are about `size` bytes."""
        each = self._stream.bytes() / max(1, self._stream.length())
        return max(1, min(rows, int(size / max(1.0, each))))

    # --- files

    def _due_for_file(self) -> bool:
        now = self._stream.measures()
        return now.lag >= FILE_ROWS or now.lag_seconds >= FILE_SECONDS or (self._pressed() and self._worth_a_file())

    def _worth_a_file(self) -> bool:
        """Tell whether what is not archived is a good part of the stream, not only the rest of it."""
        now = self._stream.measures()
        return now.bytes * now.lag / max(1, self._stream.length()) > self._settings.max_bytes / 8

    def _to_files(self, due: bool) -> bool:
        since = self._stream.archived()
        rows = self._stream.read(since, self._batch(FILE_ROWS, FILE_BYTES)) if due else []
        try:
            self._bound()
            if rows:
                self._spill.write(rows)
                self._stream.advance(since, rows[-1].cursor, len(rows))
        except OSError as error:
            reason = "the disk is full" if is_full(error) else str(error)
            self._stream.alarm(BROKEN, f"journal entries can't be written to {self._spill.folder}: {reason}",
                               "free space there, or start the database")  # fmt: skip
            return False
        if rows:
            self._stream.settle(BROKEN)
        return bool(rows)

    def _bound(self) -> None:
        """Drop the oldest files past the limit, with a gap in the journal and an alarm; past their time without."""
        files = self._spill.files()
        too_old = (self._stream.now() - self._settings.keep) * 1000
        while files and files[0].last[0] < too_old:
            self._spill.remove(files.pop(0))
        size = sum(file.size for file in files)
        while len(files) > 1 and size > self._settings.spill_bytes:
            oldest = files.pop(0)
            size -= oldest.size
            self._drop(oldest)

    def _drop(self, file: SpillFile) -> None:
        with suppress(ValueError):
            if rows := file.rows():
                self._stream.note(_gap(rows, file.size))
        self._stream.alarm(
            FULL, f"journal files reached {self._settings.spill_bytes} bytes: {stretch(file)} was dropped",
            "start the database, or raise [journal] spill_bytes",
        )  # fmt: skip
        self._spill.remove(file)

    # --- what follows

    def _expire(self, database: Database) -> None:
        if time.monotonic() < self._forget:
            return
        until = time.monotonic() + FORGET_BUDGET
        before = self._stream.now() - self._settings.keep
        while database.forget(before) and time.monotonic() < until:
            self._stream.lease()
        self._forget = time.monotonic() + (FORGET_SECONDS if time.monotonic() < until else RETRY_SECONDS)

    def _compact(self) -> bool:
        """Reduce runs that ended long enough ago, in the order of the journal, up to where the archive is."""
        wait = SETTLED_SECONDS if self._pressed() else self._settings.compact_after
        wait = min(wait, self._settings.compact_after)
        since, archived = self._stream.compacted(), self._stream.archived()
        until = min(position(archived), (int((self._stream.now() - wait) * 1000), 0))
        if until <= position(since):
            return False
        rows = self._stream.read(since, self._batch(), cursor_of(*until))
        runs = [entry.run_id for row in rows for entry in row.entries() if entry.kind == "end" and entry.run_id]
        self._stream.compact(runs)
        if rows:
            self._stream.set_compacted(rows[-1].cursor)
        return bool(rows)

    def _trim(self) -> bool:
        must = cursor_of(int((self._stream.now() - self._settings.hot) * 1000), 0)
        compacted = self._stream.compacted()
        must = min(must, compacted, key=position)
        return self._stream.trim(compacted, must, int(LOW * self._settings.max_bytes)) > 0

    def _pressed(self) -> bool:
        return self._stream.bytes() > self._settings.max_bytes

    # --- telling

    def _tell(self) -> None:
        state = "none" if self._database is None else "away" if self._away else "ok"
        files = self._spill.files()
        host = self._spill.host
        self._stream.tell({
            "worker": self._stream.transport.worker, "at": self._stream.now(), "database": state,
            f"files {host}": len(files), f"file bytes {host}": sum(file.size for file in files),
        })  # fmt: skip
        for alarm in self._stream.measures().alarms:
            if self._told.get(alarm.name, 0.0) + FORGET_SECONDS < alarm.at:
                self._told[alarm.name] = alarm.at
                log.error("%s: %s → %s", alarm.name, alarm.what, alarm.fix)
            if alarm.name in LOST and alarm.at < self._stream.now() - DAY:
                self._stream.settle(alarm.name)


def _gap(rows: Sequence[StreamRow], size: int) -> JournalEntry:
    """Return the entry that stands for rows that were dropped."""
    detail = {"entries": len(rows), "bytes": size, "first": rows[0].cursor, "last": rows[-1].cursor,
              "since": rows[0].seconds, "until": rows[-1].seconds}  # fmt: skip
    return JournalEntry("gap", "", outcome="dropped", reason="the journal's files reached their limit", detail=detail)
