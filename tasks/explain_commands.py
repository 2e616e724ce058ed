"""The commands that explain: `lumia trace`, `lumia runs` and `lumia journal export|import|tail`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lumia import paths
from lumia.cli import output
from lumia.errors import LumiaError, RootNotFoundError, UnknownRunError
from lumia.history import RunFilter, RunSummary
from lumia.lookup import Found, Lookup
from lumia.marks import command
from tasks.asked import period
from tasks.history import StreamHistory

if TYPE_CHECKING:
    from lumia.exports import Export
    from lumia.journal import JournalEntry
    from lumia.runtime import Runtime

CURSOR = re.compile(r"\d{1,19}(-\d{1,19})?|\$")
IMPORTS = Path("data") / "imports"
BUS = 1000
"""Trees of the bus that are passed over at most where they are not listed."""
COLUMNS = ("time", "run", "id", "group", "outcome", "reason", "steps", "ms", "tokens", "cost")
OUTCOMES = ("done", "stopped", "blocked", "failed", "cancelled", "running", "dead")
MOST = 100_000
"""Trees that one export takes at most."""

File = Annotated[str, typer.Option("--file", metavar="FILE", help="Read an exported journal; needs no running bot.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Id = Annotated[str, typer.Option("--id", metavar="PATTERN", help="Event or pipeline id, * for any text.")]
Group = Annotated[str, typer.Option(help="Lane, or the chat id in it.")]
Outcome = Annotated[str, typer.Option(help=f"One of {', '.join(OUTCOMES)}.")]
Since = Annotated[
    str, typer.Option(metavar="TIME", help="Started then or later: 2h, yesterday 14:00, 2026-11-22T10:30.")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Started then or earlier.")]


@command("trace", help="Draw a run and all it caused, with a time line; say why it was (not) answered.")
def trace_command(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run id, its beginning, or a message id; with --last a number.")
    ] = "",
    last: Annotated[bool, typer.Option("--last", help="The newest run; `--last 3` the three newest.")] = False,
    group: Annotated[str, typer.Option(help="The newest run of this lane or chat id.")] = "",
    file: File = "",
    width: Annotated[int, typer.Option(min=0, help="Columns; those of the terminal if not given.")] = 0,
    as_json: Json = False,
) -> int:
    """Draw a run as a tree beside its time line: handlers, decisions and reasons, calls, children, waits.

    The first line is the answer to "why did the bot not answer?". The exit code is 1 when nothing is found.

    Example: lumia trace --last
    """
    number = _number(run, last, group)
    with _source(file) as source:
        lookup = source.lookup
        found = lookup.newest(number, group=group) if number else [lookup.one(run)]
        for count, tree in enumerate(reversed(found)):
            if count and not as_json:
                output.text("")
            _show(lookup, tree, as_json, width)
    return 0


def _number(run: str, last: bool, group: str) -> int:
    """Return how many of the newest runs are wanted, 0 when one was named."""
    if not (last or group):
        if not run:
            raise typer.BadParameter("name a run or message, or use --last or --group", param_hint="RUN")
        return 0
    if not run:
        return 1
    if not run.isdecimal() or not 0 < int(run) <= 1000:
        raise typer.BadParameter(f"{run!r} is no number from 1 to 1000", param_hint="RUN with --last or --group")
    return int(run)


def _show(lookup: Lookup, found: Found, as_json: bool, width: int) -> None:
    from lumia.cli.drawing import show
    from lumia.verdict import as_dict

    told = lookup.trace(found)
    if as_json:
        output.data(as_dict(told))
    else:
        show(told, sys.stdout, width=width)


@command("runs", help="List runs, the newest first: outcome, reason, time, tokens, cost.")
def runs_command(
    id: Id = "*",
    group: Group = "",
    outcome: Outcome = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")] = 50,
    all: Annotated[bool, typer.Option("--all", help="Children, too; otherwise a line sums up a whole tree.")] = False,
    file: File = "",
    as_json: Json = False,
) -> int:
    """List runs and what they came to; each line sums up a run and all it caused, with --all or --id a run alone.

    The bus's own events, bus.*, are shown with --all or --id.

    Example: lumia runs --group 7 --outcome stopped --since 2h
    """
    summed = not all and id == "*"
    wanted = _wanted(id, group, outcome, since, until, limit + BUS * summed, trees=summed)
    with _source(file) as source:
        runs = source.lookup.history.find(wanted)
    if summed:
        runs = [run for run in runs if not run.id.startswith("bus.")][:limit]
    if as_json:
        output.data([_packed(run) for run in runs])
    elif runs:
        output.table(COLUMNS, [_row(run) for run in runs])
    else:
        output.note("no run matches")
    return 0


def _wanted(id: str, group: str, outcome: str, since: str, until: str, limit: int, *, trees: bool = False) -> RunFilter:
    if outcome and outcome not in OUTCOMES:
        raise typer.BadParameter(f"{outcome!r} is none of {', '.join(OUTCOMES)}", param_hint="--outcome")
    begin, end = period(since, until)
    return RunFilter((), id, group, outcome, begin, end, limit, trees=trees)


def _packed(run: RunSummary) -> dict[str, Any]:
    return {**asdict(run), "ms": run.ms}


def _row(run: RunSummary) -> list[str]:
    began = time.strftime("%m-%d %H:%M:%S", time.localtime(run.started))
    tokens = f"{run.tokens_in}+{run.tokens_out}" if run.tokens_in or run.tokens_out else "-"
    reason = run.reason if len(run.reason) <= 40 else f"{run.reason[:39]}…"
    outcome = f"{run.outcome or 'running'}{' (dead)' if run.dead else ''}"
    ms = f"{run.ms:.0f}" if run.ended else "-"
    return [
        began, run.run_id, run.id, run.key or "-", outcome, reason or "-", str(run.attempts), ms, tokens,
        f"{run.cost:.4f}" if run.cost else "-",
    ]  # fmt: skip


@command("journal export", help="Write runs with all that replay needs into one compressed file.")
def export_command(
    file: Annotated[str, "Where to, e.g. incident.jsonl.gz"],
    /,
    *runs: Annotated[str, "Runs or message ids; those that the options choose if not given"],
    id: Id = "*",
    group: Group = "",
    outcome: Outcome = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="How many trees at most.")] = 1000,
    blobs: Annotated[bool, typer.Option("--blobs", help="Include the media that messages refer to.")] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Take secrets out of what runs began with.")] = False,
) -> int:
    """Write whole run trees as compressed JSON lines: `lumia trace`, `runs` and `replay` read the file with --file.

    It holds messages and replies as they were: treat it like the chats themselves. Passwords and tokens in what a run
    began with are in it, too, unless --redact takes them out, by key and by value.

    Example: lumia journal export incident.jsonl.gz --group 7 --since 2h
    """
    from lumia.exports import Writer, write

    wanted = _wanted(id, group, outcome, since, until, limit, trees=id == "*")
    with _source("") as source:
        assert source.bot is not None
        roots = _roots(source.lookup, runs, wanted)
        if not roots:
            raise UnknownRunError("no run matches, so there is nothing to export; `lumia runs` lists what there is")
        writer = Writer(Path(file), _header(source.bot, wanted, blobs, redact))
        try:
            trees = (source.lookup.entries(root) for root in _counted(roots, "exported"))
            number = write(
                writer, _redacted(source.bot, trees) if redact else trees, _blob_of(source.bot) if blobs else None
            )
            writer.close()
        except BaseException:
            writer.abandon()
            raise
    output.note(f"{file}: {number} run trees, {writer.entries} entries, {writer.blobs} blobs")
    return 0


def _roots(lookup: Lookup, runs: tuple[str, ...], wanted: RunFilter) -> list[str]:
    if runs:
        return list(dict.fromkeys(lookup.one(run).root_id for run in runs))
    return list(dict.fromkeys(run.root_id for run in lookup.history.find(wanted)))


def _redacted(bot: Runtime, trees: Iterable[list[JournalEntry]]) -> Iterator[list[JournalEntry]]:
    from lumia.redaction import cleaned_entry

    for entries in trees:
        yield [cleaned_entry(entry, bot.redact, bot.secret) for entry in entries]


def _header(bot: Runtime, wanted: RunFilter, blobs: bool, redact: bool) -> Any:
    from lumia import __version__
    from lumia.exports import Header, fingerprint

    assert bot.config is not None
    table = bot.transport.routes()
    plugins = dict(table.plugins) if table else {}
    return Header(bot.config.core.bot.name, __version__, time.time(), wanted.since, wanted.until,
                  fingerprint(bot.secret), plugins, blobs, redact)  # fmt: skip


def _blob_of(bot: Runtime) -> Any:
    def read(digest: str) -> bytes | None:
        assert bot.blobs is not None
        try:
            return bot.blobs.get(digest)
        except LumiaError as error:
            output.warn(f"left out: {error}")
            return None

    return read


def _counted(items: list[str], verb: str) -> Iterator[str]:
    """Yield the items and tell on a terminal, once a second, how far it is."""
    told = time.monotonic()
    for number, item in enumerate(items):
        yield item
        if time.monotonic() - told > 1.0 and sys.stderr.isatty():
            told = time.monotonic()
            output.note(f"{verb} {number + 1} of {len(items)}")


@command("journal import", help="Check an exported journal and keep it in this bot root.")
def import_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `lumia journal export` wrote.")],
    name: Annotated[str, typer.Option(help="Name to keep it under; that of the file if not given.")] = "",
    as_json: Json = False,
) -> int:
    """Check every line of an export and keep it in data/imports, so that `--file NAME` finds it.

    It stays apart from this bot's own journal, and needs neither Redis nor Postgres.

    Example: lumia journal import incident.jsonl.gz && lumia trace --last --file incident
    """
    import shutil

    from lumia.exports import SUFFIX, read

    export = read(Path(file))
    root = paths.find_root()
    kept = name or Path(file).name.removesuffix(SUFFIX)
    if not kept or kept != Path(kept).name or kept.startswith("."):
        raise typer.BadParameter(f"{kept!r} can't name a file", param_hint="--name")
    folder = root / IMPORTS
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{kept}{SUFFIX}"
    if not (target.exists() and target.samefile(file)):
        shutil.copyfile(file, target)
    target.chmod(0o600)
    trees = {entry.root_id for entry in export.entries}
    _warn_of_secret(root, export)
    if export.header.redacted:
        output.note("secrets were taken out of what its runs began with: a replay says where that may matter")
    if as_json:
        about = {"trees": len(trees), "entries": len(export.entries), "blobs": len(export.blobs)}
        output.data({"name": kept, "path": str(target), **about, "header": asdict(export.header)})
    else:
        output.text(kept)
        output.note(f"{target}: {len(trees)} run trees of bot {export.header.bot!r}; see `lumia runs --file {kept}`")
    return 0


def _warn_of_secret(root: Path, export: Export) -> None:
    from lumia.exports import fingerprint
    from lumia.secrets import load_secret

    if export.signed and fingerprint(load_secret(root)) != export.header.secret:
        output.warn(
            f"{export.signed} entries hold values signed with the secret of bot {export.header.bot!r}, which is not "
            "this bot's: they can't be replayed here unless LUMIA_SECRET is set to it; plain JSON values can"
        )


@command("journal tail", help="Print journal entries as JSON lines, as they come.")
def tail_command(
    after: Annotated[str, typer.Option(metavar="CURSOR", help="Begin after this entry; 0 for all that are kept.")] = "",
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C.")] = True,
) -> int:
    """Print journal entries, one JSON object a line: those after a cursor, then each as it comes.

    Example: lumia journal tail | jq -r 'select(.kind == "end") | .outcome'
    """
    if after and not CURSOR.fullmatch(after):
        raise typer.BadParameter(f"{after!r} is no cursor such as 0 or 1795329687540-0", param_hint="--after")
    with _source("") as source:
        assert source.bot is not None
        transport = source.bot.transport
        cursor = after or transport.cursor()
        while True:
            entries = transport.tail(cursor, 1.0 if follow else 0.0, 500)
            for entry in entries:
                output.data(asdict(entry))
            cursor = entries[-1].cursor if entries else cursor
            if not entries and not follow:
                return 0


# --- where runs are read from


@dataclass(frozen=True)
class _Source:
    lookup: Lookup
    bot: Runtime | None = None


@contextmanager
def _source(file: str) -> Iterator[_Source]:
    """Open an exported file, or the bot of this folder."""
    if file:
        from lumia.exports import read

        yield _Source(Lookup(read(exported(file)).history))
        return
    from lumia.cli.opened import opened

    with opened() as bot:
        history = bot.transport.history()
        for part in getattr(history, "parts", ()):
            if isinstance(part, StreamHistory):
                part.progress = _progress()
        yield _Source(Lookup(history, bot.transport, now=time.time()), bot)


def _progress() -> Callable[[int], None]:
    """Return what tells on a terminal, once a second, how much of the journal was read."""
    told = [time.monotonic()]

    def progress(scanned: int) -> None:
        if time.monotonic() - told[0] > 1.0 and sys.stderr.isatty():
            told[0] = time.monotonic()
            output.note(f"read {scanned:,} rows of the journal")

    return progress


def exported(name: str) -> Path:
    """Return the file that `--file` names: a path, or what `lumia journal import` keeps under that name."""
    from lumia.exports import SUFFIX

    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        kept = paths.find_root() / IMPORTS / f"{Path(name).name.removesuffix(SUFFIX)}{SUFFIX}"
    except RootNotFoundError:
        return path
    return kept if kept.exists() and Path(name).name == name else path
