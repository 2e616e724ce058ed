"""The history of archived runs: from the database, and from journal files that are not in it (docs/archive.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lumia.history import RunFilter, RunSummary, matches, newest_first, position, root_of, select, tallied, trees
from lumia.ids import id_time
from lumia.journal import JournalEntry
from tasks.archive.database import ENTRY, Database
from tasks.archive.place import Place
from tasks.archive.records import RUN_COLUMNS, entry_of, message_key, summary_of
from tasks.archive.spill import Spill, SpillFile

_PAGE = 200
_RUNS = f"SELECT {', '.join(f'r.{name}' for name in RUN_COLUMNS)} FROM lumia.runs r"
_TREES = f"{ENTRY} WHERE e.root_id = ANY(%(roots)s) ORDER BY e.ms, e.number, e.part"


class ArchiveHistory:
    """Implements `lumia.history.History`; raises `BackendUnavailableError` when the database does not answer."""

    def __init__(self, place: Place) -> None:
        self._database = Database(place.url) if place.url else None
        self._spill = Spill(place.folder)

    def find(self, wanted: RunFilter) -> list[RunSummary]:
        """Return the archived runs that match, the newest first."""
        if self._database is None:
            return _from_files(self._spill.files(), wanted)
        filed = _entries(self._spill.files())
        roots = sorted({root_of(entry) for entry in filed if entry.run_id})
        if roots:  # seldom, and not for long: files wait for a database that was away
            filed = _once([*filed, *map(entry_of, self._database.rows(_TREES, {"roots": roots}))])
        stored = (run for run in _stored(self._database, wanted) if run.root_id not in roots)
        return newest_first([*select(filed, wanted), *_first(stored, wanted.limit)])[: max(0, wanted.limit)]

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        """Return every archived entry of a tree, in the journal's order."""
        begun = id_time(root_id) * 1000
        found = [
            entry
            for entry in _entries((file for file in self._spill.files() if file.last[0] >= begun), containing=root_id)
            if root_id in (entry.root_id, entry.run_id)
        ]
        if self._database is not None:
            found += [entry_of(row) for row in self._database.rows(_TREES, {"roots": [root_id]})]
        return _once(found)

    def close(self) -> None:
        """Give the connection back."""
        if self._database is not None:
            self._database.close()


def _first(runs: Iterator[RunSummary], limit: int) -> list[RunSummary]:
    return [run for _, run in zip(range(max(0, limit)), runs, strict=False)]


def _once(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return entries in journal order, each once: a file may have been loaded, or written twice, meanwhile."""
    found = {(entry.cursor, entry.kind): entry for entry in entries}
    return sorted(found.values(), key=position)


# --- files


def _entries(files: Iterable[SpillFile], containing: str = "") -> list[JournalEntry]:
    return _once(entry for file in files for row in file.rows(containing) for entry in row.entries())


def _from_files(files: list[SpillFile], wanted: RunFilter) -> list[RunSummary]:
    """Read the newest files, as many as needed: until enough runs match, and all that were seen have their start."""
    seen: dict[tuple[str, str], JournalEntry] = {}
    for number, file in enumerate(reversed(files), 1):
        seen |= {(entry.cursor, entry.kind): entry for entry in _entries([file])}
        if number % 8 and number < len(files):
            continue
        enough = len(select(seen.values(), wanted)) >= wanted.limit
        if enough and not _unbegun_at(seen.values(), file.first[0]):
            break
    return select(seen.values(), wanted)


def _unbegun_at(entries: Iterable[JournalEntry], ms: int) -> bool:
    """Tell whether a run of these began before a moment, so that its start is in an older file."""
    return any(not tally.begun and id_time(run_id) * 1000 < ms for run_id, tally in tallied(entries).items())


# --- the database


def _stored(database: Database, wanted: RunFilter) -> Iterator[RunSummary]:
    """Yield the runs that match, the newest first, page by page."""
    where, values = _conditions(wanted)
    query = f"{_RUNS} WHERE {where} ORDER BY r.started DESC, r.run_id DESC LIMIT {_PAGE}"
    while True:
        page = [summary_of(row) for row in database.rows(query, values)]
        chosen = _with_trees(database, page) if wanted.trees else page
        yield from (run for run in chosen if matches(run, wanted))
        if len(page) < _PAGE:
            return
        values |= {"at": round(page[-1].started * 1000), "run": page[-1].run_id}


def _with_trees(database: Database, roots: list[RunSummary]) -> list[RunSummary]:
    ids = [run.run_id for run in roots]
    below = database.rows(f"{_RUNS} WHERE r.root_id = ANY(%(roots)s) AND r.root_id <> r.run_id", {"roots": ids})
    return trees([*roots, *map(summary_of, below)])


def _conditions(wanted: RunFilter) -> tuple[str, dict[str, object]]:
    """Return what the database can say of a filter: never less than what matches, `matches` has the last word."""
    conditions = ["(r.started, r.run_id) < (%(at)s, %(run)s)"]
    values: dict[str, object] = {"at": 2**62, "run": ""}

    def add(condition: str, **more: object) -> None:
        conditions.append(condition)
        values.update(more)

    if wanted.trees:
        add("r.run_id = r.root_id")
    if wanted.runs:
        names = {f"run{number}": f"{_escaped(run)}%" for number, run in enumerate(wanted.runs)}
        add("(" + " OR ".join(f"r.run_id LIKE %({name})s" for name in names) + ")", **names)
    if wanted.id != "*":
        exact = "*" not in wanted.id
        add("r.id = %(id)s" if exact else "r.id LIKE %(id)s", id=wanted.id if exact else _like(wanted.id))
    if ":" in wanted.group:
        add("r.key = %(group)s", group=wanted.group)
    elif wanted.group:
        add("(r.key = %(group)s OR r.key LIKE %(chat)s OR r.key LIKE %(peer)s)", group=wanted.group,
            chat=f"%:{_escaped(wanted.group)}", peer=f"%-{_escaped(wanted.group)}")  # fmt: skip
    if wanted.outcome == "running" and not wanted.trees:
        add("r.ended = 0")
    elif wanted.outcome == "dead" and not wanted.trees:
        add("r.dead")
    elif wanted.outcome not in ("", "running", "dead"):
        add("r.outcome = %(outcome)s", outcome=wanted.outcome)
    if wanted.since:
        add("r.started >= %(since)s", since=int(wanted.since * 1000))
    if wanted.until:
        add("r.started <= %(until)s", until=int(wanted.until * 1000) + 1)
    if wanted.message:
        add("r.message = %(message)s", message=message_key(wanted.message))
    return " AND ".join(conditions), values


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _like(glob: str) -> str:
    return _escaped(glob).replace("*", "%")
